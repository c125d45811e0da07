"""The formats of input files, by the ends of their names."""

from jobs.embed.errors import BatchError

__all__ = ["FORMATS", "format_of", "is_compressed"]

#: The format of a file by the end of its name. Other files are refused, and none is guessed.
FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl.gz",
    ".ndjson.gz": "jsonl.gz",
    ".csv": "csv",
    ".csv.gz": "csv.gz",
    ".parquet": "parquet",
}


def format_of(key: str) -> str:
    """Return the format of a file by its name.

    Raises:
        BatchError: If the name has another end.
    """
    for end, name in FORMATS.items():
        if key.lower().endswith(end):
            return name
    raise BatchError(
        f"{key} has no known format. Names must end in {', '.join(FORMATS)}. Move other files out "
        "of the input folder."
    )


def is_compressed(name: str) -> bool:
    """Return whether a format is compressed as a whole."""
    return name.endswith(".gz")
