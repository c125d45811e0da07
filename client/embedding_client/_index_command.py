"""`embed index` and `embed search`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from tqdm import tqdm

from embedding_client._errors import ConfigurationError
from embedding_client._job_arguments import INDEX_VARIABLE, LOAD_VARIABLE
from embedding_client._progress import Shown, follow

if TYPE_CHECKING:
    from embedding_client._client import EmbeddingClient
    from embedding_client._executions import Execution, Executions
    from embedding_client._index import IndexVectors
    from embedding_client._protocol import Match

__all__ = ["run_index", "run_search"]

_FAILED = 1
_INTERRUPTED = 130


def run_index(args: argparse.Namespace) -> int:
    """Run `embed index`; return the exit status."""
    if args.step == "load" and args.local:
        _load_here(args)
    steps: dict[str, Callable[[argparse.Namespace], int]] = {
        "load": _load,
        "status": _status,
        "cancel": _cancel,
        "list": _list,
        "show": _show,
        "count": _count,
        "delete": _delete,
    }
    return steps[args.step](args)


def _load(args: argparse.Namespace) -> int:
    if not args.source.startswith("s3://"):
        raise ConfigurationError(
            f"On AWS, the source is s3://BUCKET/PREFIX/; found {args.source}. For a folder of this "
            "machine, use --local."
        )
    if args.vectors_per_second is not None:
        raise ConfigurationError(
            "--vectors-per-second is for --local; on AWS it is a setting of `[index]`."
        )
    settings = {"source": args.source} | {
        name: value
        for name in ("index", "metadata", "max_rejected_percent")
        if (value := getattr(args, name)) is not None
    }
    loads = _loads(args)
    args.load = loads.start(settings, name=args.name)
    print(args.load, flush=True)
    if not _follows(args):
        return 0
    return _print(_followed(loads, args), as_json=False)


def _load_here(args: argparse.Namespace) -> NoReturn:
    program = [sys.executable, "-P", "-m", "embedding_kit", "jobs.ingest"]
    command = [*program, args.source, _index_arn(args)]
    for name in ("metadata", "max_rejected_percent", "vectors_per_second"):
        value = getattr(args, name)
        for each in value if isinstance(value, list) else [value]:
            command += [] if each is None else [f"--{name.replace('_', '-')}", str(each)]
    if args.profile:
        os.environ["AWS_PROFILE"] = args.profile
    # In place of this process, so that Ctrl-C and the exit status are the load's own.
    os.execv(sys.executable, command)  # noqa: S606 - this Python, our module


def _status(args: argparse.Namespace) -> int:
    loads = _loads(args)
    status = _followed(loads, args) if _follows(args) else loads.execution(args.load)
    return _print(status, as_json=args.json) if status else _INTERRUPTED


def _follows(args: argparse.Namespace) -> bool:
    return bool(sys.stderr.isatty() if args.follow is None else args.follow)


def _followed(loads: "Executions", args: argparse.Namespace) -> "Execution | None":
    """Follow a load; return its last status, or None after Ctrl-C."""
    try:
        return follow(
            loads.execution(args.load),
            lambda: loads.execution(args.load),
            _shown,
            on_terminal=sys.stderr.isatty(),
        )
    except KeyboardInterrupt:
        print(f"\n{args.load} goes on; 'embed index cancel {args.load}' stops it", file=sys.stderr)
        return None


def _shown(status: "Execution") -> Shown:
    if status.items is None:
        return Shown("planning", 0, None)
    failed = f", {status.failed} failed" if status.failed else ""
    return Shown(f"{status.done} of {status.items} parts{failed}", status.done, status.items)


def _print(status: "Execution | None", *, as_json: bool) -> int:
    if status is None:
        return _INTERRUPTED
    if as_json:
        shown = {
            "name": status.name,
            "state": status.state,
            "started": status.started.isoformat(),
            "ended": status.ended.isoformat() if status.ended else None,
            "settings": status.settings,
            "parts": status.items,
            "done": status.done,
            "failed": status.failed,
            "result": status.result,
            "problem": status.problem,
        }
        print(json.dumps(shown))
    else:
        lines = [f"  {name:<12} {value}" for name, value in _fields(status)]
        print("\n".join([f"{status.name}  {status.state}", *lines]))
    return 0 if status.state in {"RUNNING", "SUCCEEDED"} else _FAILED


def _fields(status: "Execution") -> Iterator[tuple[str, object]]:
    if status.items is not None:
        yield "parts", f"{status.done} of {status.items} done, {status.failed} failed"
    ended = status.ended or datetime.now(UTC)
    yield "started", f"{status.started:%Y-%m-%d %H:%M:%S %Z}"
    yield "duration", tqdm.format_interval((ended - status.started).total_seconds())
    for name, value in (status.result or {}).items():
        if name != "parts":
            yield name, value
    if status.problem:
        yield "error", status.problem


def _cancel(args: argparse.Namespace) -> int:
    _loads(args).cancel(args.load)
    print(f"{args.load} is canceled; the same 'embed index load' continues it")
    return 0


def _list(args: argparse.Namespace) -> int:
    for name, state, started in _loads(args).newest(args.number):
        print(f"{started:%Y-%m-%d %H:%M}  {state:<9}  {name}")
    return 0


def _show(args: argparse.Namespace) -> int:
    print(json.dumps(_vectors(args).describe(), indent=2))
    return 0


def _count(args: argparse.Namespace) -> int:
    print(_vectors(args).count())
    return 0


def _delete(args: argparse.Namespace) -> int:
    ids = args.ids
    if not ids:
        if sys.stdin.isatty():
            raise ConfigurationError("Nothing to delete: give ids, or a pipe with one id a line.")
        ids = (line.rstrip("\n") for line in sys.stdin)
    count = _vectors(args).delete(each for each in ids if each)
    # S3 Vectors does not say which of them existed.
    print(f"{count} ids are not in the index")
    return 0


def _loads(args: argparse.Namespace) -> "Executions":
    from embedding_client._executions import Executions  # noqa: PLC0415  (slow)

    if not args.state_machine:
        raise ConfigurationError(
            f"No state machine: give --state-machine, or set {LOAD_VARIABLE} to the ARN that "
            "`scripts/deploy` prints as LoadStateMachineArn. For this machine, use --local."
        )
    return Executions(args.state_machine, output="LoadStateMachineArn", profile=args.profile)


def _vectors(args: argparse.Namespace) -> "IndexVectors":
    from embedding_client._index import IndexVectors  # noqa: PLC0415  (slow)

    return IndexVectors(_index_arn(args), profile=args.profile)


def _index_arn(args: argparse.Namespace) -> str:
    if not args.index:
        raise ConfigurationError(
            f"No index: give its ARN, or set {INDEX_VARIABLE} to the ARN that `scripts/deploy` "
            "prints as IndexArn."
        )
    return str(args.index)


def run_search(args: argparse.Namespace, connect: Callable[[str | None], "EmbeddingClient"]) -> int:
    """Search, and print the matches, best first.

    Args:
        args: The arguments of `embed search`.
        connect: Makes a client that accepts this vector space, or any if it is None.

    Raises:
        EmbeddingClientError: If there is no result.
    """
    where = _filter(args.filter)
    if args.index is None:
        with connect(None) as client:
            matches = client.search(args.text, top=args.top, filter=where)
    else:
        from embedding_client._index import IndexSearch  # noqa: PLC0415  (slow)

        index = IndexSearch(args.index, profile=args.profile)
        with connect(index.vector_space) as client:
            matches = index.search(client, args.text, top=args.top, where=where)
    for match in matches:
        print(_line(match, as_json=args.json))
    return 0


def _filter(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"--filter must be JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ConfigurationError(
            """--filter must be a JSON object, such as '{"year": {"$gte": 2020}}'."""
        )
    return value


def _line(match: "Match", *, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(match), ensure_ascii=False)
    # An index may be loaded without its texts.
    return f"{match.score:.4f}  {' '.join((match.text or match.id).split())}"
