"""The page of the server lists its flags with their defaults."""

import re
from dataclasses import fields
from pathlib import Path

from embedder.server.settings import ServerSettings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
#: Defaults that the page describes in words.
IN_WORDS = {None: "", (): "none", False: "off"}


def test_every_flag_is_there_with_its_default():
    """The table has the flags in the order of `--help`."""
    rows = re.findall(r"^\| `(--[a-z-]+)` \| ([^|]*) \|", PAGE, re.MULTILINE)
    flags = [field for field in fields(ServerSettings) if not field.metadata["flag"].secret]
    assert [flag for flag, _ in rows] == ["--" + field.name.replace("_", "-") for field in flags]
    for (flag, shown), field in zip(rows, flags, strict=True):
        expected = IN_WORDS.get(field.default, str(field.default))
        assert shown == expected if expected else shown, flag
