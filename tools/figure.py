"""Figures of matplotlib in the reader's light or dark scheme."""

import io
import re
from collections.abc import Mapping

import matplotlib
from matplotlib.figure import Figure

#: The colors in the light scheme, which figures use, and those in the dark one.
LIGHT: Mapping[str, str] = {
    "paper": "#ffffff", "ink": "#1f2328", "quiet": "#57606a", "grid": "#d8dee4",
    "green": "#1a7f37", "blue": "#0969da", "orange": "#bc4c00", "gray": "#8c959f",
    "pale blue": "#ddf4ff", "pale orange": "#fff1e5",
}  # fmt: skip
_DARK: Mapping[str, str] = {
    "paper": "#0d1117", "ink": "#e6edf3", "quiet": "#9198a1", "grid": "#2f353d",
    "green": "#3fb950", "blue": "#58a6ff", "orange": "#db6d28", "gray": "#656c76",
    "pale blue": "#0c2d6b", "pale orange": "#3d1300",
}  # fmt: skip
# Text stays text, a dollar is a dollar, and the same figure gives the same file.
matplotlib.rcParams.update({
    "font.family": "DejaVu Sans",
    "svg.fonttype": "none",
    "svg.hashsalt": "embedding-kit",
    "text.parse_math": False,
    "font.size": 14,
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["grid"],
    "axes.labelcolor": LIGHT["quiet"],
    "xtick.color": LIGHT["quiet"],
    "ytick.color": LIGHT["quiet"],
    "axes.spines.top": False,
    "axes.spines.right": False,
})  # fmt: skip


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in pixels, on paper."""
    return Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=LIGHT["paper"])


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG; each color of `LIGHT` has another value in the dark scheme."""
    file = io.StringIO()
    figure.savefig(
        file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
    )
    # Two decimals of each coordinate; the texts keep theirs.
    svg = re.sub(r"\d+\.\d{3,}(?=[^<>]*>)", lambda found: f"{float(found[0]):.2f}", file.getvalue())
    svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    rules = "".join(
        f'[style*="{key}: {color}"]{{{key}:{_DARK[name]}!important}}'
        for name, color in LIGHT.items()
        for key in ("fill", "stroke")
        if f"{key}: {color}" in svg
    )
    svg = re.sub(r' transform="rotate\(-0 [^"]*"|(?<=\d)pt(?=")', "", svg[svg.index("<svg") :])
    dark = f"@media (prefers-color-scheme: dark){{{rules}}}</style>"
    lines = svg.replace("</style>", dark, 1).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"
