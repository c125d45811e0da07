"""A model's folder: what it holds, its name, and where one of S3 is on this machine.

Synth calls no AWS. `python -m operations.model_download` puts a folder of S3 into the cache, at a
path that has the bucket and the prefix in it, and everything else reads it there.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from embedding_kit.settings.base import rule_error
from embedding_kit.settings.locations import location_of

#: A folder of a model has one of these: sentence-transformers' own, an adapter alone, or a plain
#: cross-encoder. The image's build asks for the same.
FOLDER_HOLDS = ("modules.json", "adapter_config.json", "config.json")
#: File systems allow names of 255 bytes.
_LONGEST = 200


def cached_folder(url: str) -> Path:
    """Return the path of a folder of S3 on this machine; it may not be there yet.

    Raises:
        PydanticCustomError: A `ValueError` if S3 has no such folder, or a file system no such name.
    """
    bucket, prefix = location_of(url)
    name = quote(prefix.rstrip("/"), safe="")
    if not 0 < len(name) <= _LONGEST:
        raise rule_error(
            "a model's folder in S3 has a prefix, which names a folder of the cache",
            found=url,
            allowed=f"s3://BUCKET/PREFIX, with a prefix of up to {_LONGEST} characters",
        )
    return _cache() / bucket / name


def s3_place(folder: Path) -> tuple[str, str] | None:
    """Return the bucket and the prefix of a folder in the cache; None for any other folder."""
    if folder.parents[1:2] != (_cache(),):
        return None
    return folder.parent.name, unquote(folder.name)


def folder_name(folder: str | Path) -> str:
    """Return the last part of a folder's path, with a hyphen for what a name may not have."""
    path = Path(folder)
    last = unquote(path.name).rpartition("/")[2] if s3_place(path) else path.name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._")[:128]


def _cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "embedding-kit" / "s3"
