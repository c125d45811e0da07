"""One measurement in a process of its own, which prints one line of JSON.

    python -m benchmarks.download.worker KIND ARGUMENT ...

The module imports nothing heavy before the measured part begins.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["memory"]


def _setup() -> None:
    """Make what sends the first request: our own client."""
    from embedder.artifact_download import download  # noqa: F401, PLC0415
    from embedder.artifact_download.s3_object import S3Object, parse_location  # noqa: PLC0415

    source = S3Object(parse_location("s3://bucket/key"), region="eu-central-1")
    source.connect()


def _setup_botocore() -> None:
    """Make what sends the first request: botocore's client, as boto3 does."""
    from botocore.session import get_session  # noqa: PLC0415

    get_session().create_client("s3", region_name="eu-central-1")


def _fetch(endpoint: str, package: str, temporary: str) -> dict[str, float]:
    """Read all parts and write the files, each part checked with CRC-32."""
    from embedder.artifact_download import download  # noqa: PLC0415
    from embedder.artifact_download.layout import read_layout  # noqa: PLC0415
    from embedder.artifact_download.s3_object import S3Object, parse_location  # noqa: PLC0415

    layout = read_layout(package)
    source = S3Object(parse_location("s3://bucket/key"), region="eu-central-1", endpoint=endpoint)
    cpu, wall = time.process_time(), time.perf_counter()
    download._transfer(temporary, layout, source)  # the part without SHA-256
    moved = time.process_time()
    seconds = time.perf_counter() - wall
    download._wrong_file(temporary, layout)
    gigabytes = layout.size / 1e9
    return {
        "fetch s/GB": (moved - cpu) / gigabytes,
        "SHA-256 s/GB": (time.process_time() - moved) / gigabytes,
        "MB/s": layout.size / 1e6 / seconds,
    }


def _start(package: str, *location: str) -> dict[str, float]:
    """Import Lambda's handler, which starts the endpoint and warms it for a snapshot."""
    os.environ["EMBEDDING_ARTIFACT"] = package
    os.environ["AWS_LAMBDA_INITIALIZATION_TYPE"] = "snap-start"
    if location:
        os.environ["AWS_ENDPOINT_URL_S3"], os.environ["TMPDIR"] = location
        os.environ["EMBEDDING_ARTIFACT_LOCATION"] = "s3://bucket/key"
    # The first import of a start, and those of its modules, count as the start's.
    import embedder.startup  # noqa: F401, PLC0415
    from embedder.engine import Engine  # noqa: PLC0415
    from embedder.session import Session  # noqa: PLC0415

    session, warming = _timed(Session, "__init__"), _timed(Engine, "warm")
    network = _timed_transfer() if location else []
    from embedder import handler  # noqa: F401, PLC0415 - what Lambda imports

    cpu = 1000 * time.process_time()
    beside = cpu - sum(network)
    return {
        "start cpu ms": cpu,
        "beside the network ms": beside,
        "session ms": sum(session),
        "warming ms": sum(warming),
        "without warming ms": beside - sum(warming),
    }


def _timed_transfer() -> list[float]:
    from embedder.artifact_download import download  # noqa: PLC0415

    return _timed(download, "_transfer")


def _timed(owner: Any, name: str) -> list[float]:
    """Let a function record the processor time of each call in milliseconds."""
    found: list[float] = []
    function = getattr(owner, name)

    def timed(*arguments: Any, **more: Any) -> Any:
        cpu = time.process_time()
        answer = function(*arguments, **more)
        found.append(1000 * (time.process_time() - cpu))
        return answer

    setattr(owner, name, timed)
    return found


_KINDS: dict[str, Callable[..., dict[str, float] | None]] = {
    "setup": _setup,
    "setup-botocore": _setup_botocore,
    "fetch": _fetch,
    "start": _start,
}


def memory() -> dict[str, float]:
    """Return the memory of this process in MB, and its peak."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {
        name: int(fields[key].split()[0]) * 1024 / 1e6
        for name, key in (("MB", "VmRSS"), ("peak MB", "VmHWM"))
    }


def main() -> None:
    """Measure and print."""
    kind, *arguments = sys.argv[1:]
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    os.environ["AWS_REGION"] = "eu-central-1"
    cpu = time.process_time()
    found = _KINDS[kind](*arguments) or {}
    sys.stdout.write(
        json.dumps({"cpu ms": 1000 * (time.process_time() - cpu)} | found | memory()) + "\n"
    )
    sys.stdout.flush()
    os._exit(0)  # without the interpreter's end, which nothing here measures


if __name__ == "__main__":
    main()
