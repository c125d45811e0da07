"""The formats of files, by name. Light enough for `embed --help`."""

from pathlib import Path

from embedding_client.errors import FileError

__all__ = ["FORMATS", "OUTPUTS", "format_of"]

_SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}

#: What can be read. All but Parquet may be compressed with gzip.
FORMATS = ("text", "json", "jsonl", "csv", "tsv", "parquet")
#: What can be written.
OUTPUTS = (".jsonl", ".parquet", ".npy")


def format_of(path: Path) -> str:
    """Returns the format that a file's name stands for; `.gz` at its end is ignored.

    Raises:
        FileError: the name stands for no known format.
    """
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    kind = _SUFFIXES.get(name.suffix.lower())
    if kind is None or (kind == "parquet" and name != path):
        raise FileError(
            f"{path}: the format of {path.suffix or 'a file without an extension'} is not known. "
            f"Known are {', '.join(_SUFFIXES)}, and all but .parquet with .gz; or name it with "
            f"--format {'|'.join(FORMATS)}."
        )
    return kind
