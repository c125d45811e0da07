"""Unicode's canonical composition (NFC) as the `tokenizers` library has it.

The library knows the characters of Unicode 9. Normalization of these is the same in all later
versions (https://www.unicode.org/policies/stability_policy.html), so Python's own composes them,
and it is not shown the characters that the library does not know. The compiler marks those that it
does; see the section `alike` of `byte_level`.

Imported on demand: nearly all texts are composed already.
"""

import re
from collections.abc import Iterator
from unicodedata import combining, normalize

#: Characters. In a run of marks, Python's own way takes the square of the run's length.
_LONG = 1000
#: Characters that composition may change, in the replacement text.
_RUNS = re.compile("[\x80-\xff]+")


def compose(text: str, *, pages: memoryview, alike: memoryview) -> str:
    """Return a text in NFC, by the sections `alike_pages` and `alike` of `byte_level`."""
    marks = "".join(chr(alike[pages[ord(c) >> 8] << 8 | ord(c) & 0xFF]) for c in text)
    pieces, done = [], 0
    for run in _RUNS.finditer(marks):
        start, stop = run.span()
        run_text = text[start:stop]
        composed = (
            normalize("NFC", run_text) if len(run_text) < _LONG else "".join(_recomposed(run_text))
        )
        pieces += [text[done:start], composed]
        done = stop
    return "".join([*pieces, text[done:]])


def _recomposed(text: str) -> Iterator[str]:
    """Compose a text step by step, as the standard says.

    Source: https://www.unicode.org/reports/tr15/#Description_Norm.
    """
    starter = ""
    marks: list[str] = []
    for character in _decomposed(text):
        order = combining(character)
        if not starter:
            if order:
                yield character
            else:
                starter = character
            continue
        # A mark that did not compose blocks those after it that are not of a higher class.
        if not marks or combining(marks[-1]) < order:
            composed = normalize("NFC", starter + character)
            if len(composed) == 1:
                starter = composed
                continue
        if order:
            marks.append(character)
        else:
            yield starter
            yield from marks
            starter, marks = character, []
    yield starter
    yield from marks


def _decomposed(text: str) -> Iterator[str]:
    """Decompose a text, the marks in their canonical order."""
    run: list[str] = []
    for character in text:
        for letter in normalize("NFD", character):
            if not combining(letter):
                yield from sorted(run, key=combining)
                run = []
            run.append(letter)
    yield from sorted(run, key=combining)
