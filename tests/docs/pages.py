"""The pages of the documentation and the examples on them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Those of a package are its description in the package index.
OF_PACKAGES = [ROOT / "client" / "README.md", ROOT / "constructs" / "README.md"]
OF_EXAMPLE = ROOT / "examples" / "app" / "README.md"
_OF_ROOT = [ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "README", "SECURITY")]
PAGES = sorted([*_OF_ROOT, OF_EXAMPLE, *OF_PACKAGES, *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(
    r"(<!-- not run: (?P<reason>[^>]+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)```", re.DOTALL
)


def blocks(text: str, language: str) -> list[str]:
    """Return the examples of a page, without those that cannot run."""
    found = BLOCK.finditer(text)
    return [one["code"] for one in found if one["language"] == language and not one["reason"]]
