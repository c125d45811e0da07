"""Front matter: metadata, or text between two rules."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.documents.document import RefusedDocumentError
from jobs.documents.front_matter import split_front_matter

WANTED = ("year", "tags")
DEEP = "".join(f"a{level}: &a{level} [{f'*a{level - 1}, ' * 9}]\n" for level in range(1, 30))


def split(text: str):
    return split_front_matter(text, WANTED)


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        ("year: 2023   # published", {"year": 2023}),
        ("year: 2.5\nother:\n  deep: 1", {"year": 2.5}),
        ("year: null\ntags: []", {}),
        ("year: ~\ntags: [a, ~, 2]", {"tags": ["a", 2]}),
        ("year:\ntags:\n- a\n- b # c", {"tags": ["a", "b"]}),
        ("tags: [a,\n  'b, c', \"2\",\n  true]", {"tags": ["a", "b, c", "2", True]}),
        ("title: >-\n  Two\n  lines\nyear: |\n  a\n  b", {"title": "Two lines", "year": "a\nb"}),
        ("title: '2023'\nyear: !!str 5", {"title": "2023", "year": "5"}),
        (
            "year: 2024-01-05\ntags: [yes, 0o17, 012, 1:30, 1_000, True]",
            {"year": "2024-01-05", "tags": ["yes", "0o17", "012", "1:30", "1_000", True]},
        ),
        ("year: 12345678901234567890", {"year": "12345678901234567890"}),
        ("year: &y 1\ntags: [*y, *y]", {"year": 1, "tags": [1, 1]}),
        ("title: Rust: a 'guide' # 1\nother: @x\nyear: 1", {"title": "Rust: a 'guide'", "year": 1}),
        ("title: [a]\ntitle: {b: c}\nother: 1\nother: 2\nyear: 1", {"year": 1}),
        ('"year": 1\ndate created: now', {"year": 1}),
        (f"a0: &a0 [x]\n{DEEP}year: 1", {"year": 1}),
    ],
)
def test_entries_of_yaml_are_metadata(entries, values):
    """True, false, null and plain numbers have types; all else is text."""
    assert split(f"---\n{entries}\n---\nwords") == (values, "words")
    assert split(f"---\n{entries}\n...  \nwords\n---") == (values, "words\n---")


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        ("year = 2023 # published\ntitle = '''\nA'''", {"year": 2023, "title": "A"}),
        ("tags = [\n 'a',\n true, 2.5]\n[other]\nyear = 1", {"tags": ["a", True, 2.5]}),
        (
            "year = 2024-01-05T10:00:00Z\ntags = [2024-01-05, 10:00:00]",
            {"year": "2024-01-05T10:00:00+00:00", "tags": ["2024-01-05", "10:00:00"]},
        ),
        ("year = 12345678901234567890\ntags = []", {"year": "12345678901234567890"}),
    ],
)
def test_entries_of_toml_are_metadata(entries, values):
    """Dates are text, as those of YAML."""
    assert split(f"+++\n{entries}\n+++\nwords") == (values, "words")


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nThis is an introduction.\n\nMore facts.\n\n---\n\nThe rest.",
        "---\n\nyear: 1\n\n---\ntext",
        "---\nNote to readers: this page moved\nPlease read on.\n---\n\nBody",
        "---\n# Heading\n---\ntext",
        "---\n- a\n- b\n---\ntext",
        "---\nA short sentence: with a colon.\n\nAnd another: one.\n---",
        "---\nyear: 1",
        "+++\nWords\n+++\ntext",
        "year: 1\n---\ntext",
        "---\n---\n",
        "---\n" + "word " * 50_000 + "\n---",
        "----\nyear: 1\n----",
        "",
    ],
)
def test_what_is_no_mapping_is_text(text):
    """A rule is a rule, and nothing is lost."""
    assert split(text) == ({}, text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "---\ntitle: a\nyear:\n  from: 1\n---",
            "line 3: year in the front matter must be a value",
        ),
        ("---\ntags: [a, [b]]\n---", "line 2: tags in the front matter must be"),
        ("---\ntags: &t [a, *t]\n---", "line 2: tags in the front matter must be"),
        ("---\nyear: 1\ntags: a\nyear: 2\n---", "line 4: the front matter has year twice"),
        ("---\ntitle: a\ntags: [a, b\n---", "line 3: the front matter is not YAML: expected ','"),
        ("---\nyear: *a\n---", "line 2: the front matter is not YAML: found undefined alias"),
        ("---\ntitle: [Draft] Plan\n---", "line 2: the front matter is not YAML"),
        (
            "---\nother: " + "[" * 9999 + "\n---",
            "the front matter is not YAML: it has too many levels",
        ),
        ("---\n" + "a: b: c\n" * 30 + "---", "more than 20 values need quotes"),
        ("+++\ntitle = 'a'\nyear = {a = 1}\n+++", "line 3: year in the front matter must be"),
        ("+++\n[[tags]]\na = 1\n+++", "line 2: tags in the front matter must be"),
        ("+++\nyear = nan\n+++", "line 2: year in the front matter must be"),
        ("+++\nyear = 1\nyear = 2\n+++", "line 3: the front matter is not TOML: Cannot overwrite"),
        ("+++\nyear = \n+++", "line 2: the front matter is not TOML: Invalid value"),
        (
            "---\n" + "a: b\n" * 20_000 + "---",
            "its front matter has 80,000 characters; up to 65,536",
        ),
    ],
)
def test_a_mapping_that_cannot_be_read_is_refused(text, problem):
    """By the line, and only if it is broken as a whole or its entry is wanted."""
    with pytest.raises(RefusedDocumentError) as caught:
        split(text)
    assert problem in str(caught.value)


@given(st.text(alphabet="ab:-#[]{}&*!|>'\" \n", max_size=60), st.sampled_from(["---", "+++"]))
def test_any_text_is_read_or_refused(inner, mark):
    """As metadata, or with all its characters."""
    text = f"{mark}\n{inner}\n{mark}\nwords"
    try:
        values, body = split(text)
    except RefusedDocumentError:
        return
    assert body.endswith("words")
    assert body == text or values.keys() <= {*WANTED, "title"}


def test_the_time_of_front_matter_is_bounded():
    """Marks that nest, at its size limit."""
    began = time.process_time()
    for unit in ("[", "- ", "{a: ", "? ", "a: &a ", "!", "'"):
        with suppress(RefusedDocumentError):
            split("---\ntitle: " + unit * (60_000 // len(unit)) + "\n---")
    assert time.process_time() - began < 30
