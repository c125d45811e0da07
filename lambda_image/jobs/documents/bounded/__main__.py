"""Reads a document from standard input, within limits, and writes it as JSON.

Its arguments are `FORMAT CONTENT_TYPE WANTED...`. Exit status `REFUSED` has the reason on standard
error; a process that ends otherwise was over a limit.
"""

import logging
import resource
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn

import orjson

from jobs.documents.bounded import CPU_SECONDS, MEMORY, REFUSED
from jobs.documents.document import Document, RefusedDocumentError, check_blocks

#: Limit of the text, in characters.
_MAX_TEXT = 32 * 1024 * 1024


def main() -> None:
    """Read standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    logging.disable()
    name, content_type, *wanted = sys.argv[1:]
    # A missing package is no fault of the document.
    read = import_module(f"jobs.documents.bounded.{name}").read
    try:
        document = read(sys.stdin.buffer.read(), content_type, wanted)
        check_blocks(document.blocks)
        if sum(len(block.text) for block in document.blocks) > _MAX_TEXT:
            _refuse(f"it has more than {_MAX_TEXT:,} characters of text")
        sys.stdout.buffer.write(_json(document))
    except RefusedDocumentError as error:
        _refuse(str(error))
    except MemoryError:
        _refuse(f"its text takes more than {MEMORY >> 20:,} MB of memory")
    except RecursionError:
        _refuse("its parts are nested too deeply")
    except Exception as error:  # a broken file may raise anything from the library
        label = name.partition("_")[0].upper()
        _refuse(f"it is not valid {label} ({type(error).__name__})")


def _refuse(reason: str) -> NoReturn:
    sys.stderr.write(reason)
    sys.exit(REFUSED)


def _json(document: Document) -> bytes:
    return orjson.dumps(_unicode(document))


def _unicode(value: Any) -> Any:
    """Replace lone surrogates, which a broken font or a mail has, in the types of a document."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {name: _unicode(item) for name, item in value.items()}
    return list(map(_unicode, value)) if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
