"""The artifact: the folder that the compiler writes and the embedder serves.

`load_artifact` reads `manifest.json` into typed, frozen values. It rejects a manifest of another
format or with a wrong checksum (edited by hand, incomplete), and a file that is missing or has the
wrong size. Hashing the files would add hundreds of milliseconds to every cold start, so only
the compiler's `verify` command does it.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from embedder.core.errors import ArtifactError

# `hashlib` loads OpenSSL, which takes 3 ms of a start and 4 MB. CPython's own `_blake2` module does
# not need it. The standard library's `random` avoids OpenSSL the same way.
try:
    from _blake2 import blake2b
except ImportError:  # a Python that is built otherwise
    from hashlib import blake2b

FORMAT_VERSION = 4
MANIFEST_FILE = "manifest.json"
#: Names the artifacts that one function serves: `{"artifacts": {task: checksum}}`. Each is in the
#: folder of its task, and the checksum is its manifest's. One artifact alone has no such file.
SET_FILE = "artifacts.json"


class ModelEntry(NamedTuple):
    """The model that the artifact was compiled from."""

    name: str
    #: The commit of the hub repository, or `sha256:` and the start of the source's own hash.
    revision: str
    #: The family (`bert`, `static`), or `onnx` for an export that was taken as it is.
    architecture: str
    #: The short name of the model's license (`apache-2.0`, `gemma`), where it is known.
    license: str | None


class TokenizerEntry(NamedTuple):
    """The tokenizer that serves the model."""

    #: `wordpiece`, `bpe`, or `tokenizers` (the library of that name).
    kind: str
    file: str
    #: Why the fast tokenizer does not serve this model; null where it does.
    reason: str | None


class GraphEntry(NamedTuple):
    """The graph: its file, the runtime that runs it, and its inputs and output.

    Inputs are int64 [batch, tokens]; the output is float32 [batch, dimensions], its rows
    of length 1, or [batch, labels], the logits of a reranker or a classifier.
    """

    #: `onnxruntime`, or `numpy` for a static model: its graph is a table of rows.
    runtime: str
    #: An ONNX file, or the table.
    file: str
    inputs: tuple[str, ...]
    output: str
    #: `none`: the graph is written as it should run. `extended`: ONNX Runtime optimizes it at
    #: start-up, which an export that was taken as it is needs, and pays for.
    optimization: str
    #: The same graph with the kit's operators, for processors of which the package has a library
    #: (see `session`); None without int8 layers, and of a model that the compiler did not build.
    operator_file: str | None = None


#: The second input of a graph that separates two parts of its input: 0 for padding, else 1 or 2.
SEGMENTS = "segments"


class ScoringEntry(NamedTuple):
    """The scores of a reranker or a classifier, and the form in which it takes a pair of texts.

    The ids of a pair are `before`, the query's, `between`, the passage's, `after`; those of a
    classifier's single text, what the tokenizer puts around any text. The texts that a model's
    template puts around a query or before a passage are tokenized together with it.
    """

    #: The names of the labels, in the order of the logits; a classifier's are all different.
    labels: tuple[str, ...]
    #: The function from logits to scores: `sigmoid`, `identity`, or a classifier's `softmax` over
    #: its labels. By transformers' `problem_type`, these are of several labels, a regression, and
    #: a single label.
    activation: str
    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    #: The token type of the passage and of `after`; everything before has the type 0.
    second_type: int
    query_prefix: str
    query_suffix: str
    passage_prefix: str
    #: The model's own truncation: `longest_first`, or `passage` for a model with a template.
    truncation: str


class FileEntry(NamedTuple):
    """Size in bytes and SHA-256, in hexadecimal, of one file of the artifact."""

    bytes: int
    sha256: str


class Golden(NamedTuple):
    """A text, the name of its prompt, and the first components of its full-size embedding."""

    text: str
    prompt: str | None
    embedding_head: tuple[float, ...]


class GoldenPair(NamedTuple):
    """A query, a passage, and the logits of each label."""

    query: str
    passage: str
    logits: tuple[float, ...]


class GoldenText(NamedTuple):
    """A text, and the logits of each label."""

    text: str
    logits: tuple[float, ...]


class GoldenTerms(NamedTuple):
    """A text, the name of its prompt, and the largest weights of its sparse vector."""

    text: str
    prompt: str | None
    indices: tuple[int, ...]
    values: tuple[float, ...]


#: The kind of model of each task, with an article.
TASKS = {
    "classify": "a classifier",
    "embed": "an embedding model",
    "rerank": "a reranker",
    "sparse": "a sparse encoder",
}
#: Those that one function may serve together.
TOGETHER = ("embed", "rerank", "sparse")
_GOLDEN = {"classify": GoldenText, "embed": Golden, "rerank": GoldenPair, "sparse": GoldenTerms}


class Manifest(NamedTuple):
    """The content of `manifest.json`."""

    format_version: int
    model: ModelEntry
    #: `embed`, `rerank`, `sparse` or `classify`: texts to vectors, pairs of texts to scores, texts
    #: to sparse vectors, or texts and pairs to a score for each label.
    task: str
    #: Names the space of full-size vectors, or of scores. It changes when, and only when, they
    #: could change.
    vector_space: str
    precision: str
    #: The numbers of dimensions that a caller may ask for, largest first; none of a model that
    #: gives scores. Of a sparse encoder, the size of its vocabulary.
    dimensions: tuple[int, ...]
    #: The longest text or pair that the model takes, in tokens, special tokens included.
    max_tokens: int
    #: The longest text in characters; None for a limit that follows from `max_tokens`.
    max_characters: int | None
    prompts: Mapping[str, str]
    default_prompt: str | None
    #: None but of a reranker or a classifier.
    scoring: ScoringEntry | None
    tokenizer: TokenizerEntry
    graph: GraphEntry
    #: The compiler's report on how far the vectors are from the model's own; not used to serve.
    fidelity: Mapping[str, Any]
    #: Texts with what the compiler computed for them, in the form of the task.
    golden: (
        tuple[Golden, ...]
        | tuple[GoldenPair, ...]
        | tuple[GoldenTerms, ...]
        | tuple[GoldenText, ...]
    )
    files: Mapping[str, FileEntry]
    checksum: str

    @property
    def kind(self) -> str:
        """What the model is, with an article."""
        return TASKS[self.task]

    @property
    def full_dimensions(self) -> int:
        """The number of dimensions that a vector has by default."""
        return self.dimensions[0]

    @property
    def space_kind(self) -> str:
        """What the space has: `vector`s, `score`s or `label`s."""
        return {"classify": "label", "rerank": "score"}.get(self.task, "vector")

    @property
    def space(self) -> str:
        """The space of what the model gives by default: full-size vectors, or scores."""
        if self.scoring is not None:
            return self.vector_space
        return self.vector_space_of(dimensions=self.full_dimensions)

    def vector_space_of(self, *, dimensions: int) -> str:
        """Return the name of the vector space with these dimensions, as callers see it."""
        # Sparse vectors have no other dimensions than all.
        return self.vector_space if self.task == "sparse" else f"{self.vector_space}/{dimensions}"


class Artifact(NamedTuple):
    """A folder with a valid manifest and complete files."""

    folder: str | os.PathLike[str]
    manifest: Manifest

    @property
    def graph_path(self) -> str:
        """The file that the session loads."""
        return os.path.join(self.folder, self.manifest.graph.file)

    @property
    def tokenizer_path(self) -> str:
        """The file that the tokenizer reads."""
        return os.path.join(self.folder, self.manifest.tokenizer.file)


def load_artifact(folder: str | os.PathLike[str]) -> Artifact:
    """Read and check the artifact in `folder`.

    Raises:
        ArtifactError: if it has another format, is incomplete, or was changed after it was written.
    """
    return _complete(folder, load_manifest(folder))


def load_artifacts(folder: str | os.PathLike[str]) -> list[Artifact]:
    """Read and check all that is served together: the artifact in `folder`, or those of its set.

    Raises:
        ArtifactError: as `load_artifact`, or if the set names another artifact than is in a folder.
    """
    return [
        _complete(subfolder, manifest) for subfolder, manifest in load_manifests(folder).items()
    ]


def load_manifests(folder: str | os.PathLike[str]) -> dict[str | os.PathLike[str], Manifest]:
    """As `load_artifacts`, without the files; by folder, an embedding model first."""
    path = os.path.join(folder, SET_FILE)
    try:
        with open(path, "rb") as file:
            checksums = orjson.loads(file.read())["artifacts"]
    except FileNotFoundError:
        return {folder: load_manifest(folder)}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path} is not a list of artifacts: {error}.") from error
    manifests: dict[str | os.PathLike[str], Manifest] = {}
    for task in sorted(checksums):
        if task not in TOGETHER:
            raise ArtifactError(f"{path} must name tasks of {', '.join(TOGETHER)}; found {task}.")
        subfolder = os.path.join(folder, task)
        manifest = manifests[subfolder] = load_manifest(subfolder)
        if (manifest.task, manifest.checksum) != (task, checksums[task]):
            raise ArtifactError(
                f"{subfolder} must have the artifact that {path} names: a model that can {task}, "
                f"with the checksum {checksums[task]}; found {manifest.task}, {manifest.checksum}."
            )
    return manifests


def _complete(folder: str | os.PathLike[str], manifest: Manifest) -> Artifact:
    for name, entry in manifest.files.items():
        path = os.path.join(folder, name)
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise ArtifactError(
                f"{path} is named in the manifest and cannot be read ({error.strerror}). "
                "The artifact is incomplete."
            ) from error
        if size != entry.bytes:
            raise ArtifactError(
                f"{path} has {size} bytes and the manifest says {entry.bytes}. "
                "The artifact was changed or is incomplete."
            )
    return Artifact(folder=folder, manifest=manifest)


def load_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """As `load_artifact`, without the other files, which may be elsewhere."""
    path = os.path.join(folder, MANIFEST_FILE)
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise ArtifactError(
            f"{folder} is not an artifact: {path} cannot be read ({error.strerror}). "
            "`embedding-kit model_compiler MODEL --output DIR` writes one."
        ) from error
    return parse_manifest(raw, where=path)


def parse_manifest(raw: bytes, *, where: str) -> Manifest:
    """Turn the bytes of a `manifest.json` into a manifest; `where` names it in errors.

    The checksum shows that the compiler wrote the manifest, so its fields need no further check.
    Only the names of files do, because anyone can compute a checksum: an artifact must not make the
    embedder read outside its folder.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ArtifactError(f"{where} is not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise ArtifactError(f"{where} must be a JSON object.")
    # Another format may have other rules for everything else.
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{where} has format_version {version}; this embedder reads {FORMAT_VERSION}. "
            "Compile the model again with the compiler of this version."
        )
    checksum = document.pop("checksum", None)
    computed = manifest_checksum(document)
    if computed != checksum:
        raise ArtifactError(
            f"{where} was changed after it was written: its checksum is {checksum}, the "
            f"checksum of its content is {computed}. Do not edit a manifest; compile the model "
            "again."
        )
    for name in document["files"]:
        if "/" in name or name in {"", ".", ".."}:
            raise ArtifactError(
                f"{where}: files must be names in the artifact's own folder; found {name!r}."
            )
    scoring = document["scoring"]
    golden_kind: Any = _GOLDEN[document["task"]]
    return Manifest(
        **{
            **document,
            "model": ModelEntry(**document["model"]),
            "dimensions": tuple(document["dimensions"]),
            "scoring": None if scoring is None else ScoringEntry(**_frozen(scoring)),
            "tokenizer": TokenizerEntry(**document["tokenizer"]),
            "graph": GraphEntry(**_frozen(document["graph"])),
            "golden": tuple(golden_kind(**_frozen(entry)) for entry in document["golden"]),
            "files": {name: FileEntry(**entry) for name, entry in document["files"].items()},
        },
        checksum=computed,
    )


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def manifest_checksum(content: Mapping[str, Any]) -> str:
    """Return the BLAKE2b-256 of a manifest without its checksum, in hexadecimal.

    It is that of the canonical JSON: UTF-8, keys sorted, no spaces, numbers as orjson writes them.
    """
    return digest(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), 32).hex()


def digest(data: bytes, size: int) -> bytes:
    """Return the BLAKE2b digest of `data` in `size` bytes (RFC 7693), at most 64."""
    return blake2b(data, digest_size=size).digest()
