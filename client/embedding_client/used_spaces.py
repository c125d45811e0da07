"""The vector space of each endpoint that this machine has used, for `embed doctor`.

The file is one of the user's, with a JSON object of URLs and vector spaces. It is no error if it
cannot be read or written.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from embedding_client.addresses import LOOPBACK

__all__ = ["note_use", "read_spaces", "spaces_file", "write_spaces"]


def spaces_file() -> Path:
    """Return the file: in XDG_STATE_HOME, or in ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "embedding-kit" / "vector-spaces.json"


def note_use(url: str, space: str | None) -> None:
    """Write the vector space of an endpoint that `embed` has used, unless one is noted.

    A later one does not replace it: `embed doctor` reports that it has changed.
    """
    # Whatever this machine serves changes often, and is at another port.
    if space is None or urlsplit(url).hostname in LOOPBACK:
        return
    file, url = spaces_file(), url.rstrip("/")
    known = read_spaces(file)
    if url not in known:
        write_spaces(file, {**known, url: space})


def read_spaces(file: Path) -> dict[str, str]:
    """Return the vector spaces by URL; none if the file cannot be read."""
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def write_spaces(file: Path, known: Mapping[str, str]) -> None:
    """Replace the file, if possible."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(known, indent=2))
        new.replace(file)
