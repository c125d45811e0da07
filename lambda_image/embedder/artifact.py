"""The artifact: the folder that the compiler writes and the embedder serves.

`load_artifact` reads `manifest.json` into typed, frozen values and refuses what it cannot trust: a
newer format, a manifest whose checksum does not fit (edited by hand, cut short), a file that is
missing or of another size. Hashing the files would cost hundreds of milliseconds of every
cold start: that is the compiler's `verify` command.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from embedder.digest import digest
from embedder.errors import ArtifactError
from embedder.json_fields import JsonFields

__all__ = [
    "FORMAT_VERSION",
    "Artifact",
    "FileEntry",
    "Golden",
    "GraphEntry",
    "Manifest",
    "ModelEntry",
    "TokenizerEntry",
    "load_artifact",
    "manifest_checksum",
]

FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"


class ModelEntry(NamedTuple):
    """Which model the artifact was compiled from."""

    name: str
    #: The commit of the hub repository, or `sha256:` and the start of the source's own hash.
    revision: str
    #: The family (`bert`, `gemma3_text`), or `onnx` for an export that was taken as it is.
    architecture: str
    #: The short name of the model's license (`apache-2.0`, `gemma`), where it is known.
    license: str | None


class TokenizerEntry(NamedTuple):
    """Which tokenizer serves the model."""

    #: `wordpiece`, `bpe`, or `tokenizers` (the library of that name).
    kind: str
    file: str
    #: Why the fast tokenizer does not serve this model; null where it does.
    reason: str | None


class GraphEntry(NamedTuple):
    """Where the graph is and how it is fed.

    Inputs are int64 [batch, tokens]; the output is float32 [batch, dimension], its rows
    of length 1.
    """

    file: str
    inputs: tuple[str, ...]
    output: str
    #: `none`: the graph is written as it should run. `extended`: ONNX Runtime optimises it at
    #: start-up, which an export that was taken as it is needs, and pays for.
    optimization: str


class FileEntry(NamedTuple):
    """Size in bytes and SHA-256, in hexadecimal, of one file of the artifact."""

    bytes: int
    sha256: str


class Golden(NamedTuple):
    """A text, the name of its prompt, and the first components of its full-size embedding."""

    text: str
    prompt: str | None
    embedding_head: tuple[float, ...]


class Manifest(NamedTuple):
    """What `manifest.json` says."""

    format_version: int
    model: ModelEntry
    #: Names the space of full-size vectors. It changes when, and only when, vectors could change.
    vector_space: str
    precision: str
    #: The sizes that a caller may ask for, largest first.
    dimensions: tuple[int, ...]
    #: The longest text that the model takes, in tokens, special tokens included.
    max_tokens: int
    prompts: Mapping[str, str]
    default_prompt: str | None
    tokenizer: TokenizerEntry
    graph: GraphEntry
    #: The compiler's report on how far the vectors are from the model's own; not used to serve.
    fidelity: Mapping[str, Any]
    golden: tuple[Golden, ...]
    files: Mapping[str, FileEntry]
    checksum: str

    @property
    def dimension(self) -> int:
        """The full dimension, which is the default."""
        return self.dimensions[0]

    def vector_space_of(self, *, dimension: int) -> str:
        """Return the name of the vector space at one of the allowed sizes, as callers see it."""
        return f"{self.vector_space}/{dimension}"


class Artifact(NamedTuple):
    """A folder whose manifest has been read and whose files are there."""

    folder: str | os.PathLike[str]
    manifest: Manifest

    @property
    def graph_path(self) -> str:
        """The ONNX file that the session loads."""
        return os.path.join(self.folder, self.manifest.graph.file)


def load_artifact(folder: str | os.PathLike[str]) -> Artifact:
    """Read and check the artifact in `folder`.

    Raises:
        ArtifactError: if it is not an artifact, is of a newer format, was changed after it was
            written, or is incomplete.
    """
    path = os.path.join(folder, MANIFEST_FILE)
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise ArtifactError(
            f"{folder} is not an artifact: {path} cannot be read ({error.strerror}). "
            "`python -m model_compiler MODEL --output DIR` writes one."
        ) from error
    manifest = parse_manifest(raw, where=path)
    for name, entry in manifest.files.items():
        _check_size(os.path.join(folder, name), entry.bytes)
    return Artifact(folder=folder, manifest=manifest)


def parse_manifest(raw: bytes, *, where: str) -> Manifest:
    """Turn the bytes of a `manifest.json` into a manifest; `where` names it in errors.

    Raises:
        ArtifactError: as `load_artifact`, but for the files.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ArtifactError(f"{where} is not JSON: {error}.") from error
    fields = JsonFields(document, where=where, error=ArtifactError)
    # The version comes first: of a newer format nothing else can be expected to hold.
    version = fields.integer("format_version")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{where} has format_version {version}; this embedder reads {FORMAT_VERSION}. "
            "Compile the model again with the compiler of this version."
        )
    checksum = fields.string("checksum")
    found = manifest_checksum({key: document[key] for key in document if key != "checksum"})
    if found != checksum:
        raise ArtifactError(
            f"{where} was changed after it was written: its checksum is {checksum}, its "
            f"content's is {found}. Compile the model again; a manifest is not to be "
            "edited by hand."
        )
    manifest = _manifest(fields, version=version, checksum=checksum)
    fields.done()
    return manifest


def _manifest(fields: JsonFields, *, version: int, checksum: str) -> Manifest:
    manifest = Manifest(
        format_version=version,
        model=_model(fields.child("model")),
        vector_space=fields.string("vector_space"),
        precision=fields.string("precision"),
        dimensions=fields.integers("dimensions"),
        max_tokens=fields.integer("max_tokens"),
        prompts=fields.strings("prompts"),
        default_prompt=fields.optional_string("default_prompt"),
        tokenizer=_tokenizer(fields.child("tokenizer")),
        graph=_graph(fields.child("graph")),
        fidelity=fields.mapping("fidelity"),
        golden=tuple(_golden(entry) for entry in fields.children("golden")),
        files=_files(fields),
        checksum=checksum,
    )
    _check_meaning(manifest, fields)
    return manifest


def _check_meaning(manifest: Manifest, fields: JsonFields) -> None:
    sizes = manifest.dimensions
    if not sizes or min(sizes) < 1 or list(sizes) != sorted(set(sizes), reverse=True):
        fields.refuse("dimensions", "positive sizes, largest first", list(sizes))
    if manifest.max_tokens < 1:
        fields.refuse("max_tokens", "a positive number", manifest.max_tokens)
    if manifest.default_prompt is not None and manifest.default_prompt not in manifest.prompts:
        fields.refuse(
            "default_prompt", f"one of {sorted(manifest.prompts)}", manifest.default_prompt
        )
    if manifest.graph.optimization not in {"none", "extended"}:
        fields.refuse("graph.optimization", "none or extended", manifest.graph.optimization)
    for key, name in (
        ("graph.file", manifest.graph.file),
        ("tokenizer.file", manifest.tokenizer.file),
    ):
        if name not in manifest.files:
            fields.refuse(key, f"one of the artifact's files {sorted(manifest.files)}", name)


def _model(fields: JsonFields) -> ModelEntry:
    entry = ModelEntry(
        name=fields.string("name"),
        revision=fields.string("revision"),
        architecture=fields.string("architecture"),
        license=fields.optional_string("licence"),
    )
    fields.done()
    return entry


def _tokenizer(fields: JsonFields) -> TokenizerEntry:
    entry = TokenizerEntry(
        kind=fields.string("kind"),
        file=fields.string("file"),
        reason=fields.optional_string("reason"),
    )
    fields.done()
    return entry


def _graph(fields: JsonFields) -> GraphEntry:
    entry = GraphEntry(
        file=fields.string("file"),
        inputs=fields.string_list("inputs"),
        output=fields.string("output"),
        optimization=fields.string("optimization"),
    )
    fields.done()
    return entry


def _golden(fields: JsonFields) -> Golden:
    entry = Golden(
        text=fields.string("text"),
        prompt=fields.optional_string("prompt"),
        embedding_head=fields.numbers("embedding_head"),
    )
    fields.done()
    return entry


def _files(fields: JsonFields) -> dict[str, FileEntry]:
    files = {}
    for name, entry in fields.child("files").items():
        # A manifest may come from anywhere; it must not make the embedder look outside its folder.
        if "/" in name or name in {"", ".", ".."}:
            fields.refuse("files", "names of files in the artifact's own folder", name)
        files[name] = FileEntry(bytes=entry.integer("bytes"), sha256=entry.string("sha256"))
        entry.done()
    return files


def _check_size(path: str, expected: int) -> None:
    try:
        found = os.stat(path).st_size
    except OSError as error:
        raise ArtifactError(
            f"{path} is named in the manifest and cannot be read ({error.strerror}). "
            "The artifact is incomplete."
        ) from error
    if found != expected:
        raise ArtifactError(
            f"{path} has {found} bytes and the manifest says {expected}. "
            "The artifact was changed or cut short."
        )


def manifest_checksum(content: Mapping[str, Any]) -> str:
    """Return the BLAKE2b-256 of a manifest without its checksum, in hexadecimal.

    It is that of the canonical JSON: UTF-8, keys sorted, no spaces, numbers as orjson writes them.
    """
    return digest(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), 32).hex()
