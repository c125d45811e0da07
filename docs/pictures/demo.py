"""Draw demo.svg from what `scripts/demo` printed.

scripts/demo > docs/pictures/demo.txt; python docs/generate.py
"""

import re
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT  # noqa: PLC2701  (it has no public name)
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

TRANSCRIPT = Path(__file__).with_suffix(".txt")
_COLUMNS = 80


def draw() -> str:
    """Return the picture of a terminal."""
    console = Console(record=True, width=_COLUMNS, file=StringIO(), highlight=False)
    console.print(Text("$ scripts/demo", style="bold"))
    for line in TRANSCRIPT.read_text(encoding="utf-8").strip("\n").splitlines():
        console.print(_styled(line), soft_wrap=True)
    # Without the fonts, which the picture would load from another server.
    code_format = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    picture = console.export_svg(
        title="scripts/demo", theme=MONOKAI, code_format=code_format, unique_id="demo"
    )
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def _styled(line: str) -> Text:
    if re.match(r"\d  |Done", line):
        return Text(line, style="bold green")
    if line.startswith("“"):
        return Text(line, style="yellow")
    hit = re.match(r"  (\d\.\d+)  ([\w.]+): ", line)
    if hit is None:
        return Text(line)
    text = Text(line, style="dim")
    text.stylize("not dim cyan", *hit.span(1))
    text.stylize("not dim bold", *hit.span(2))
    return text
