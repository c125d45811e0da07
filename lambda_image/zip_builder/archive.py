"""Writes files into a zip whose bytes depend on nothing but their names and contents."""

import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

__all__ = ["write_zip"]

#: The first time that a zip can hold.
_TIME = (1980, 1, 1, 0, 0, 0)
#: A regular file that everyone may read, as Unix stores it in the upper half of the attributes.
#: Lambda starts no program of the function, so none is executable.
_MODE = 0o100644 << 16
_UNIX = 3


def write_zip(files: Mapping[PurePosixPath, Path], archive: Path) -> None:
    """Write a zip: entries in the order of the mapping, with fixed times and modes.

    Another zlib may compress the same content to other bytes.

    Args:
        files: The file of each path in the zip.
        archive: The zip to create.
    """
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED, compresslevel=9) as output:
        for path, file in files.items():
            entry = zipfile.ZipInfo(str(path), _TIME)
            entry.create_system, entry.external_attr = _UNIX, _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            output.writestr(entry, file.read_bytes())
