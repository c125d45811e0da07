"""The file formats by name. `embed --help` imports this module."""

from pathlib import Path

from embedding_client._errors import FileError

_SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}

#: The input formats. All except Parquet may be compressed with gzip.
FORMATS = ("text", "json", "jsonl", "csv", "tsv", "parquet")
#: The extensions of the output formats.
OUTPUTS = (".jsonl", ".parquet", ".npy")


def format_of(path: Path) -> str:
    """Return the format of a file by its name, ignoring `.gz` at the end."""
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    kind = _SUFFIXES.get(name.suffix.lower())
    if kind is None or (kind == "parquet" and name != path):
        raise FileError(
            f"{path}: the format of {path.suffix or 'a file without an extension'} is unknown. "
            f"Known extensions are {', '.join(_SUFFIXES)}, and all except .parquet with .gz; or "
            f"set the format with --format {'|'.join(FORMATS)}."
        )
    return kind
