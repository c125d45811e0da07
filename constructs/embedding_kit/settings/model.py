"""The model that the endpoint serves, the acceptance of its license, and a model's own folder.

Synth calls no AWS. `scripts/deploy` and `scripts/build` put a folder of S3 into the cache, at a
path that has the bucket and the prefix in it, and everything else reads it there.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import quote, unquote

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from embedding_kit.programs import python_version
from embedding_kit.settings.base import Distinct, Settings, allowed, optional, rule_error
from embedding_kit.settings.locations import location_of

#: A folder of a model has one of these: sentence-transformers' own, an adapter alone, or a plain
#: cross-encoder.
FOLDER_HOLDS = ("modules.json", "adapter_config.json", "config.json")
#: File systems allow names of 255 bytes.
_LONGEST = 200
#: The terms that a user must accept, by the license's short name.
TERMS = {"gemma": "https://ai.google.dev/gemma/terms"}
#: EmbeddingGemma, but for its second version, which has no terms to accept and another size.
_EMBEDDING_GEMMA = re.compile(r"embeddinggemma(?!-2\b)")
#: MB that a function needs to load it and answer one request, by the precision.
#: Measured for int8 (215 at the peak); for fp32 the 101 million weights outside the embedding table
#: take 4 bytes each, the libraries 45 MB and the activations 18. Both are rounded up, for Lambda's
#: own share. Source: docs/performance.md.
_NEEDED_MEMORY_MB = {"int8": 256, "fp32": 512}
#: The tables of the models of other kinds that the same function may serve.
COMPANIONS = ("reranker", "sparse")
#: The settings of a model that are no options of its compile. All others are, by their names.
_NOT_COMPILED = {
    "folder",
    "index_dimension",
    "hub_token_variable",
    "base_image",
    "index",
    "kind",
    *COMPANIONS,
}
#: `docs/generate.py` writes it from the catalog: the constructs cannot import the compiler, because
#: synth does not need its dependencies.
_CATALOG = Path(__file__).with_name("catalog.json")


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """Facts about a model of the catalog, before it is compiled."""

    name: str
    #: The full one first, then those that the model was trained for; none of a classifier.
    dimensions: tuple[int, ...]
    #: `embed` or `classify`.
    task: str = "embed"
    #: The most tokens of a text without a prompt; None without a limit.
    text_tokens: int | None = None
    #: Size of its artifact in int8; None if it was not measured.
    megabytes: float | None = None


@cache
def _catalog() -> dict[str, CatalogModel]:
    """Return the models by their names in lower case, whole and without the owner."""
    listed = json.loads(_CATALOG.read_text(encoding="utf-8"))
    models = [
        CatalogModel(name, tuple(facts.pop("dimensions")), **facts)
        for name, facts in listed.items()
    ]
    short = {model.name.rpartition("/")[2].lower(): model for model in models}
    return short | {model.name.lower(): model for model in models}


def _nearest(name: str) -> list[str]:
    """Return up to three names of the catalog that are like a name, the most like first."""
    near = get_close_matches(name.lower(), _catalog(), n=6, cutoff=0.7)
    return [*dict.fromkeys(_catalog()[match].name for match in near)][:3]


_Source = TypeVar("_Source", bound="ModelSource")


class ModelSource(Settings):
    """A model to compile, by its name or from a folder."""

    name: Annotated[
        str,
        Field(max_length=128),
        allowed(
            "a catalog name such as google/embeddinggemma-300m",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$",
        ),
    ] = Field(
        default="",
        description="The model: a name of the catalog, OWNER/NAME of the hub, or any name of a "
        "folder. If unset, the folder's own.",
    )
    revision: (
        Annotated[str, allowed("a commit of 40 hexadecimal digits", pattern=r"^[0-9a-f]{40}$")]
        | None
    ) = optional(
        "The commit of the hub's repository. If unset, the catalog's; for a model without one "
        "there, the newest when the image is built."
    )
    precision: Literal["int8", "fp32"] | None = optional(
        "Precision of the weights: `int8` is smaller and faster, `fp32` is exact. If unset, "
        "`int8`, or full precision for a model with its own ONNX export."
    )
    accept_license: Literal["gemma"] | None = optional(
        "A license with terms that you accept; some models require it."
    )
    folder: Path | None = optional(
        "A sentence-transformers folder or `s3://bucket/prefix` to compile, such as a fine-tuned "
        "model, instead of fetching the model; a path is relative to the environment's file, and "
        "`scripts/deploy` and `scripts/build` read S3.",
        strict=False,
    )

    @property
    def choices(self) -> dict[str, Any]:
        """The model's name and the options of its compile, as models.json has them."""
        settings = self.model_dump(mode="json", exclude=_NOT_COMPILED)
        return {name: value for name, value in settings.items() if value}

    @property
    def catalog(self) -> CatalogModel | None:
        """The catalog's model of that name, without the owner or with it, in any case.

        A folder is not the catalog's model, whatever its name.
        """
        return None if self.folder else _catalog().get(self.name.lower())

    @property
    def license_to_accept(self) -> str | None:
        """The short name of the license that the user must accept, or None."""
        return "gemma" if _EMBEDDING_GEMMA.search(self.name.lower()) else None

    @property
    def needed_memory_mb(self) -> int | None:
        """The memory that the model needs to load, or None if unknown."""
        if not _EMBEDDING_GEMMA.search(self.name.lower()):
            return None
        return _NEEDED_MEMORY_MB[self.precision or "int8"]

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_folder(cls, value: Any) -> Any:
        """Place a folder of S3 in the cache, and give a model without a name its folder's."""
        if not isinstance(value, dict):
            return value
        folder, name = value.get("folder"), value.get("name")
        if isinstance(folder, str) and folder.startswith("s3:"):
            folder = cached_folder(folder)
        if name is None and isinstance(folder, str | Path):
            name = folder_name(folder)
        named = {"folder": folder, "name": name}
        return value | {key: setting for key, setting in named.items() if setting is not None}

    # `ModelSettings` has an index.
    @field_validator("folder", "index", check_fields=False)
    @classmethod
    def _found_from_the_file(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        """Make a path of an environment's file absolute, and refuse one that does not exist."""
        if value is None or not info.context or s3_place(value):
            return value
        path: Path = info.context["folder"] / value
        holds: tuple[str, ...] = ("",)
        expected = "a file of texts"
        if info.field_name == "folder":
            holds = FOLDER_HOLDS
            expected = f"a sentence-transformers folder, which holds {' or '.join(holds)}"
        try:
            path = path.resolve()
            exists = any((path / name).is_file() for name in holds)
        except (OSError, ValueError):  # A name that no file system accepts.
            exists = False
        if not exists:
            raise rule_error(
                "the path leads to no such thing",
                found=path,
                allowed=f"the path of {expected}, absolute or from the file's own folder",
            )
        return path

    @model_validator(mode="after")
    def _source_is_one(self) -> Self:
        return _check_source(self)

    @model_validator(mode="after")
    def _license_accepted(self, info: ValidationInfo) -> Self:
        if info.context and not info.context["licensed"]:
            return self
        terms = self.license_to_accept
        if terms and self.accept_license != terms:
            raise rule_error(
                f"{self.name} comes under terms that you have to accept yourself: {TERMS[terms]}",
                found="no accept_license" if self.accept_license is None else self.accept_license,
                allowed=f'accept_license = "{terms}", once you have read them; or another model',
            )
        return self


def _check_python(image: str) -> str:
    named = re.search(r"python:(3\.\d+)", image)
    if named and named[1] != python_version():
        raise rule_error(
            "the packages of the image are locked for one Python",
            found=f"Python {named[1]} in {image}",
            allowed=f"Python {python_version()}, which `scripts/base-image ENVIRONMENT` pins",
        )
    return image


_BaseImage = Annotated[
    str,
    allowed(
        "an image by its digest, as `scripts/base-image` pins it: "
        "public.ecr.aws/lambda/python:...-arm64@sha256:...",
        pattern=r"^[a-z0-9][a-z0-9.:/_-]*@sha256:[0-9a-f]{64}$",
    ),
    AfterValidator(_check_python),
]


class SparseSource(ModelSource):
    """A sparse encoder to compile, or BM25, which needs no model."""

    kind: Literal["encoder", "bm25"] = Field(
        default="encoder",
        description="`encoder`, a model, or `bm25`: the words of the texts of `index` under "
        "`[model]`, weighed by counts, without a model.",
    )

    @model_validator(mode="after")
    def _source_is_one(self) -> Self:
        if self.kind == "encoder":
            return _check_source(self)
        if found := self.model_fields_set - {"kind"}:
            raise rule_error(
                "BM25 is no model",
                found=f'kind = "bm25" with {", ".join(sorted(found))}',
                allowed='kind alone, or kind = "encoder"',
            )
        return self


class ModelSettings(ModelSource):
    """The model that is compiled into the image."""

    dimensions: Distinct[Annotated[int, Field(ge=1, le=16384)]] = Field(
        default=(),
        description="Dimensions that callers may request from a model trained for truncation. If "
        "unset, the catalog's; for your own model, the full dimension only.",
    )
    index_dimension: Annotated[int, Field(ge=1, le=4096)] | None = optional(
        "The number of dimensions of its vectors in the index of `[index]`, one of the model's. If "
        "unset, the model's full number; a model that is not in the catalog needs this setting."
    )
    task: Literal["classify", "rerank"] | None = optional(
        "Whether a model with labels is a classifier (`classify`) or a reranker. If unset, its "
        "files say so: several labels are a classifier's."
    )
    route: Literal["query", "document"] | None = optional(
        "The part of a Router that is served; its vectors are in one space with the other part's. "
        "Without it, a Router is refused when it is built."
    )
    hub_token_variable: (
        Annotated[str, allowed("a variable's name such as HF_TOKEN", pattern=r"^[A-Z][A-Z0-9_]*$")]
        | None
    ) = optional(
        "The variable of the deploying shell with the model hub's token, for a gated model. The "
        "image build gets it as a secret; no layer contains it."
    )
    base_image: _BaseImage | None = optional(
        "AWS's base image of Python for ARM64 by its digest, or a mirror of it. If unset, the "
        "newest image at build time."
    )
    index: Path | None = optional(
        "A file with the texts that `POST /similar` searches; relative to the environment's file.",
        strict=False,
    )
    reranker: SkipJsonSchema[ModelSource | None] = optional(
        "A reranker that the same function serves; in an environment's file it is the table "
        "`[reranker]`."
    )
    sparse: SkipJsonSchema[SparseSource | None] = optional(
        "A sparse encoder that the same function serves, or BM25; in an environment's file it is "
        "the table `[sparse]`."
    )

    @property
    def companions(self) -> dict[str, ModelSource]:
        """The models of other kinds that the same function serves, by the names of their tables."""
        tables = {name: getattr(self, name) for name in COMPANIONS}
        if self.bm25:
            del tables["sparse"]
        return {name: source for name, source in tables.items() if source}

    @property
    def bm25(self) -> bool:
        """Whether the index is searched by words too, without a sparse encoder."""
        return self.sparse is not None and self.sparse.kind == "bm25"

    @property
    def tables(self) -> dict[str, ModelSource]:
        """All models of the function by the names of their tables, this one first."""
        return {"model": self, **self.companions}

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """All models of the function, this one first."""
        return tuple(self.tables.values())

    @property
    def files(self) -> list[Path]:
        """The folders and texts that are compiled into the package."""
        return [*filter(None, (*(source.folder for source in self.sources), self.index))]

    @property
    def scoring_task(self) -> str | None:
        """The task, if it is known before the build that the model gives scores."""
        known = self.catalog.task if self.catalog else "embed"
        return self.task or (None if known == "embed" else known)

    @property
    def known_dimensions(self) -> tuple[int, ...]:
        """The dimensions in the catalog, the full one first; empty for a model that is not in it.

        A folder is not the catalog's model, whatever its name.
        """
        return self.catalog.dimensions if self.catalog else ()

    @model_validator(mode="after")
    def _as_the_catalog_says(self) -> Self:
        """Refuse what the compiler, or the vectors' quality, would refuse of a known model."""
        if self.catalog is None or self.catalog.task != "embed":
            return self
        full, *smaller = self.catalog.dimensions
        smallest = min(smaller, default=full)
        wrong = [n for n in self.dimensions if n != full and not (smaller and smallest <= n < full)]
        if wrong:
            trained = f"{smallest} to {full}" if smaller else f"{full} alone, or no dimensions"
            raise rule_error(
                "vectors are cut to dimensions that the model was trained for",
                found=f"dimensions with {', '.join(map(str, wrong))} of {self.catalog.name}",
                allowed=trained,
            )
        if self.route:
            raise rule_error(
                "only a Router has routes",
                found=f"route = {self.route} of {self.catalog.name}",
                allowed="no route",
            )
        return self

    @model_validator(mode="after")
    def _index_of_documents(self) -> Self:
        check_task(self)
        check_index(self)
        return self

    @field_validator(*COMPANIONS)
    @classmethod
    def _of_another_kind(cls, value: ModelSource | None) -> ModelSource | None:
        check_kind(value)
        return value

    @field_validator(*COMPANIONS)
    @classmethod
    def _table_of_its_own(
        cls, value: ModelSource | None, info: ValidationInfo
    ) -> ModelSource | None:
        if value is not None and info.context:
            raise rule_error(
                "a reranker or a sparse encoder has its own table",
                found=f"{info.field_name} in the table of a model",
                allowed=f"[{info.field_name}]",
            )
        return value


def _check_source(source: _Source) -> _Source:
    """Refuse a model without a name that leads to it, and a revision of a folder."""
    if not source.name:
        raise rule_error(
            "a model has a name of the catalog, or a folder",
            found="neither",
            allowed="name or folder, or both",
        )
    if not source.folder and not source.catalog and "/" not in source.name:
        raise rule_error(
            "only a model of the catalog or of a folder has a name without its owner",
            found=source.name,
            # The catalog has embedding models alone.
            allowed=" or ".join(_nearest(source.name) if isinstance(source, ModelSettings) else [])
            or "OWNER/NAME of the model hub, a name that `embed models` lists, or a folder",
        )
    if source.revision and source.folder:
        raise rule_error(
            "a folder has no commits of a hub's repository",
            found=f"folder and revision = {source.revision}",
            allowed="folder or revision",
        )
    return source


def check_kind(companion: ModelSource | None) -> None:
    """Refuse a model of the catalog, which has embedding models alone, of another kind."""
    if companion and companion.catalog:
        raise rule_error(
            "a reranker or a sparse encoder is no embedding model",
            found=companion.catalog.name,
            allowed="OWNER/NAME or the folder of one",
        )


def model_notes(model: ModelSettings) -> Iterator[str]:
    """Yield a warning if nothing is known of a model until it is compiled."""
    if model.folder is None and model.catalog is None:
        near = " or ".join(_nearest(model.name))
        yield (
            f"{model.name} is not in the catalog: only the build tells whether it exists and "
            "compiles, and `embedding-kit model_compiler inspect` before it"
            + (f"; did you mean {near}?" if near else ".")
        )


def check_index(model: ModelSettings) -> None:
    """Refuse BM25 without an index, and an index whose texts no artifact can encode."""
    if model.bm25 and not model.index:
        raise rule_error(
            "BM25 weighs the words of an index in the image",
            found='kind = "bm25" under [sparse], and a model without index',
            allowed="index of the model, or no [sparse]",
        )
    if model.index and model.route == "query" and "sparse" in model.companions:
        raise rule_error(
            "an index of two models is made with the package's artifacts, and that of queries "
            "cannot encode its texts",
            found='index with route = "query" and [sparse]',
            allowed='no index, no [sparse], or route = "document"',
        )


def check_task(model: ModelSettings) -> None:
    """Refuse of a model that gives scores what only vectors have, and other models next to it."""
    of_vectors = ("dimensions", "index_dimension", "route", "index", *COMPANIONS)
    settings = ", ".join(name for name in of_vectors if getattr(model, name))
    task = model.scoring_task
    if task and (settings or (model.catalog and model.catalog.task != task)):
        raise rule_error(
            "a model with a task gives scores, has no vectors and is served alone",
            found=f'task = "{task}" with {settings or model.name}',
            allowed=f"no {settings}, or no task" if settings else "OWNER/NAME or the folder of one",
        )


def cached_folder(url: str) -> Path:
    """Return the path of a folder of S3 on this machine; it may not be there yet.

    Raises:
        PydanticCustomError: A `ValueError` if S3 has no such folder, or a file system no such name.
    """
    bucket, prefix = location_of(url)
    name = quote(prefix.rstrip("/"), safe="")
    if not 0 < len(name) <= _LONGEST:
        raise rule_error(
            "a model's folder in S3 has a prefix, which names a folder of the cache",
            found=url,
            allowed=f"s3://BUCKET/PREFIX, with a prefix of up to {_LONGEST} characters",
        )
    return _cache() / bucket / name


def s3_place(folder: Path) -> tuple[str, str] | None:
    """Return the bucket and the prefix of a folder in the cache; None for any other folder."""
    if folder.parents[1:2] != (_cache(),):
        return None
    return folder.parent.name, unquote(folder.name)


def folder_name(folder: str | Path) -> str:
    """Return the last part of a folder's path, with a hyphen for what a name may not have."""
    path = Path(folder)
    folder_part = unquote(path.name).rpartition("/")[2] if s3_place(path) else path.name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder_part).strip("-._")[:128]


def _cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "embedding-kit" / "s3"
