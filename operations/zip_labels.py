"""The labels of a zip that is built once: what is in it, as the labels of an image say it.

They are in a file of the zip, so they stay with it however it is copied.
"""

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["read_labels", "write_labeled"]

_FILE = "embedding-kit.json"
#: The first time that a zip can hold, and a file that everyone may read: the same labels give the
#: same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_UNIX = 3


def write_labeled(archive: Path, labels: Mapping[str, str], to: Path) -> None:
    """Write a copy of a zip with labels.

    Args:
        archive: The zip.
        labels: Its labels.
        to: The copy.
    """
    shutil.copyfile(archive, to)
    entry = zipfile.ZipInfo(_FILE, _TIME)
    entry.create_system, entry.external_attr = _UNIX, _MODE
    with zipfile.ZipFile(to, "a") as copy:
        copy.writestr(entry, json.dumps(labels, indent=1, sort_keys=True))


def read_labels(archive: Path) -> dict[str, str]:
    """Return the labels of a zip; none if it has no labels.

    Raises:
        ValueError: The file is no zip.
    """
    try:
        with zipfile.ZipFile(archive) as found:
            return dict(json.loads(found.read(_FILE)))
    except KeyError:
        return {}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{archive.name} is no zip: {error}") from None
