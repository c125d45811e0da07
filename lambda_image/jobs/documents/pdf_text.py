"""Reads the text layer of a PDF from standard input, and writes title and pages as JSON.

It is a program, because a file of a few bytes can ask for any time and memory. Exit status 1 has
the reason on standard error; a process that ends otherwise was over a limit.
"""

import logging
import resource
import sys
from io import BytesIO

import orjson
import pypdf
from pypdf.errors import LimitReachedError

#: Limits of the process, in bytes and seconds of CPU.
_MEMORY = 1 << 30
_SECONDS = 90
#: Limit of the text, in characters.
_MAX_TEXT = 32 * 1024 * 1024


def _read(data: bytes) -> tuple[str, list[str]]:
    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        sys.exit("it is encrypted with a password")
    pages, size = [], 0
    for page in reader.pages:
        pages.append(page.extract_text().encode(errors="replace").decode())
        size += len(pages[-1])
        if size > _MAX_TEXT:
            sys.exit(f"it has more than {_MAX_TEXT:,} characters of text")
    if not any(map(str.strip, pages)):
        sys.exit("it has no text layer")
    title = reader.metadata.title if reader.metadata else None
    return str(title or ""), pages


def main() -> None:
    """Read standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    logging.disable()
    try:
        result = _read(sys.stdin.buffer.read())
    except (LimitReachedError, MemoryError, RecursionError) as error:
        sys.exit(f"its text takes more memory than allowed ({type(error).__name__})")
    except Exception as error:  # a broken file may raise anything from the library
        sys.exit(f"it is not a valid PDF ({type(error).__name__})")
    sys.stdout.buffer.write(orjson.dumps(result))


if __name__ == "__main__":
    main()
