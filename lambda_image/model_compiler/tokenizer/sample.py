"""Texts that try a tokenizer: every plane of Unicode, its own tokens, spaces, controls, long runs.

The compiler compares a few thousand before it trusts its tables; the tests and
`python -m tests.tokenizer_fuzz` compare any number. The same seed gives the same texts.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

import tokenizers

_SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Don't stop: it's 3.14159, 1,000,000 or 50%—isn't it?",
    "ÀÉÎÕÜ ñandú naïve coöperate Straße İstanbul ǅ ﬁ ﬀ ﬃ Å K Ω",
    "東京都は日本の首都です。人口は約1400万人。カタカナ ﾊﾝｶｸ",
    "Москва — столица России; ёлка й и\u0306",
    "नमस्ते दुनिया কেমন আছেন சென்னை ได้ไหม မြန်မာ ខ្មែរ",
    "العربيّةُ لغةٌ עברית שָׁלוֹם ١٢٣",
    "한국어 조선말 \u1112\u1161\u11ab ㅋㅋㅋ",
    "👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽 ❤️ ♥ ★",
    "def f(x):\n\treturn {'a': [1, 2], **x}  # comment\n\n\nif __name__ == '__main__':\n    f()",
    "https://example.com/a/b?c=d&e=%20#f user@example.com C:\\dir\\file.txt",
    "<table><tr><td>cell</td></tr></table><b>bold</b></s>&amp;&#x41;<0x41><0xE2>",
    "x\u0301\u0316 a\u0300\u0345 q\u0323\u0307 \u0344 Ạ́ \u1e9b\u0323 \ufb2c",
    "\U0001d15e\U0001d165\U0001d16e \u302e\u302f \u1b44 \u08d4\u0316 \U0001e944",
)
_SPACES = (
    " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_ODD = (
    "\x00\x01\x07\x08\x1b\x7f\x80\x9f\xad\u180e\u200b\u200c\u200d\u200e\u202e\u2060\ufeff\ufffd"
    "\ufffe\uffff\U0001fffe\U0010ffff\ue000\U000f0000\u0378\U000e0001\ufe0f\u0345\u2581▁▁"
)
#: Spaces and line feeds as SentencePiece and byte-level BPE spell them.
_SPELLED = str.maketrans("▁ĠĊ", "  \n")
#: Marks of two to four bytes that belong to the character before, and prefixes of the one after.
_JOINING = (
    "\u0301\u0300\u0308\u0338\u0327\u0653\u0e33\u0903\u093c\u094d\u09be\u200c\u200d\u20dd\ufe0f"
    "\U0001133c\U0001f3fb\u0600\u06dd\u0d4e\U000110bd"
)
#: Characters that decompose or compose with one of them, or become others.
_BASES = "aeoAEOnNi\r\n ^=<¨©®éıſ\u0627\u0648\u0340\u0344\u0915\u0958\u0e01\u1100\u2122\u2208ﬁ①가👍"
#: First and one past the last code point of each plane or block to sample.
_BLOCKS = (
    (0x0000, 0x0080),
    (0x0080, 0x0250),
    (0x0300, 0x0370),
    (0x0370, 0x0530),
    (0x0590, 0x0700),
    (0x08A0, 0x0E80),
    (0x1000, 0x1400),
    (0x1AB0, 0x1B80),
    (0x1D00, 0x2000),
    (0x2000, 0x2BFF),
    (0x3000, 0x3130),
    (0x3400, 0x4DC0),
    (0x4E00, 0xA000),
    (0xA640, 0xAB00),
    (0xAC00, 0xD7A4),
    (0xE000, 0xFB00),
    (0xFB00, 0x10000),
    (0x10000, 0x11FFF),
    (0x16A00, 0x17000),
    (0x1CF00, 0x1D200),
    (0x1D400, 0x1F000),
    (0x1F000, 0x20000),
    (0x20000, 0x30000),
    (0x30000, 0x32400),
    (0xE0000, 0xE0200),
    (0xF0000, 0x110000),
)


def sample_texts(library: tokenizers.Tokenizer, *, count: int, seed: int) -> Iterator[str]:
    """Give `count` texts for this tokenizer; the first are fixed ones, the rest follow the seed."""
    fixed = ["", " ", "  ", "\n", *_SENTENCES, *_runs()]
    yield from fixed[:count]
    texts = _Texts(library, Random(seed))  # noqa: S311 -- nothing here is secret
    for _ in range(count - len(fixed)):
        yield texts.next()


def _runs() -> list[str]:
    """Return long runs: one character, words without a space, characters without a token."""
    return [
        run
        for piece in ("a", "ab", "é", "東", "😀", "\u0301", "#", " ", "\n", "\t", "▁", "0", "<")
        for run in (piece * 2, piece * 99, piece * 100, piece * 101, piece * 700)
    ]


class _Texts:
    def __init__(self, library: tokenizers.Tokenizer, random: Random) -> None:
        self._random = random
        added = library.get_added_tokens_decoder()
        self._added_token = partial(
            random.choice, sorted(token.content for token in added.values()) or ["[NONE]"]
        )
        # Sorted by id: the library returns its vocabulary in a random order.
        vocabulary = library.get_vocab(with_added_tokens=False)
        tokens = [
            token.removeprefix("##").translate(_SPELLED)
            for token in sorted(vocabulary, key=vocabulary.__getitem__)
        ]
        self._token = partial(random.choice, tokens or ["a"])
        self._space = partial(self._several, _SPACES, 3)
        self._kinds: Sequence[tuple[Callable[[], str], int]] = (
            (self._token, 30),
            (partial(random.choice, " ".join(_SENTENCES).split()), 15),
            (self._cased, 6),
            (partial(self._several, "etaoinshrdlucmfwyp.,-'_/0123456789", 12), 10),
            (self._character, 12),
            (self._in_block, 12),
            (self._cluster, 6),
            (self._space, 8),
            (partial(random.choice, _ODD), 5),
            (self._added_token, 5),
            (self._part_of_added, 3),
            (self._run, 4),
        )

    def next(self) -> str:
        """Return the next text."""
        random = self._random
        makers, weights = zip(*self._kinds, strict=True)
        # Some texts have one kind only, so that rare kinds also occur next to each other.
        if random.random() < 0.2:
            makers, weights = (random.choice(makers),), (1,)
        gap = random.choice((" ", " ", "", "", "\n", "  "))
        size = random.choice((1, 2, 3, 5, 8, 13, 30))
        return gap.join(make() for make in random.choices(makers, weights, k=size))

    def _cased(self) -> str:
        word = self._token()
        return self._random.choice((word.upper(), word.title(), word.swapcase(), f"{word}'s,"))

    def _several(self, characters: str, most: int) -> str:
        return "".join(self._random.choices(characters, k=self._random.randint(1, most)))

    def _character(self) -> str:
        code = self._random.randrange(0x110000 - 0x800)
        return chr(code if code < 0xD800 else code + 0x800)

    def _in_block(self) -> str:
        block = self._random.choice(_BLOCKS)
        return "".join(
            chr(self._random.randrange(*block)) for _ in range(self._random.randint(1, 4))
        )

    def _cluster(self) -> str:
        pieces = (_BASES, _BASES, _JOINING, _JOINING, _JOINING)
        size = self._random.randint(2, 5)
        return "".join(map(self._random.choice, self._random.choices(pieces, k=size)))

    def _part_of_added(self) -> str:
        token = self._added_token()
        return token[: self._random.randint(0, len(token))] + self._random.choice(("", "x", token))

    def _run(self) -> str:
        piece = self._random.choice((self._character, self._token, self._space, self._added_token))
        return piece() * self._random.choice((2, 3, 17, 40))
