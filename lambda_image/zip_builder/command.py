"""The command line of `build_zip.py`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zip_builder.build import build_artifact_object, build_zip
from zip_builder.cache import default_cache
from zip_builder.errors import ZipError
from zip_builder.model import ModelChoice

__all__ = ["main"]

_RECIPE = Path(__file__).resolve().parents[1]
#: The status of a program after Ctrl-C.
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the zip and print its path; return 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(
        prog="build_zip.py",
        description="Build the zip of a function for Lambda's Python 3.13, and print its path.",
    )
    parser.add_argument("model", help="a model of the catalog, or of the hub")
    parser.add_argument("--revision")
    parser.add_argument("--precision", choices=["int8", "fp32"])
    parser.add_argument("--accept-license", metavar="NAME")
    parser.add_argument("--dimensions", metavar="N,N")
    parser.add_argument("--folder", type=Path, help="the model's own folder")
    parser.add_argument("--texts", type=Path, help="the texts of the search index")
    parser.add_argument("--hub-token-variable", metavar="NAME")
    parser.add_argument(
        "--machine", choices=["aarch64", "x86_64"], default="aarch64", help="default: %(default)s"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--without-artifact", action="store_true", help="a zip whose artifact is in S3"
    )
    place.add_argument(
        "--artifact-object", action="store_true", help="that artifact for S3 in place of the zip"
    )
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    asked = parser.parse_args(arguments)
    choice = ModelChoice(
        name=asked.model,
        revision=asked.revision,
        precision=asked.precision,
        accept_license=asked.accept_license,
        dimensions=asked.dimensions,
        folder=asked.folder,
        texts=asked.texts and asked.texts.resolve(),
        hub_token_variable=asked.hub_token_variable,
    )
    try:
        cache = asked.cache.resolve()
        if asked.artifact_object:
            built = build_artifact_object(choice, recipe=_RECIPE, cache=cache)
        else:
            built = build_zip(
                choice,
                recipe=_RECIPE,
                cache=cache,
                machine=asked.machine,
                with_artifact=not asked.without_artifact,
            )
    except (OSError, ZipError) as error:
        # Such as a full disk; what is half built has been removed.
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; the same command continues", file=sys.stderr)
        return _INTERRUPTED
    print(built)
    return 0
