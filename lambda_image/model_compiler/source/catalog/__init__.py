"""The models that the kit knows by name, from `catalog.toml`, and their speed, size and memory.

`scripts/bench shapes` makes `measured.json`. Speed, size and memory depend on a model's shape and
not on its weights, so it measures one replica with random weights for each shape. The times of a
model that was not measured are estimated from the sizes in its `config.json`.
"""

import functools
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CATALOG_FILE = Path(__file__).with_name("catalog.toml")
MEASURED_FILE = Path(__file__).with_name("measured.json")


#: The special tokens of one text: one in front and one at its end, and T5's at its end.
_SPECIAL_TOKENS = {
    "albert": 2,
    "bert": 2,
    "distilbert": 2,
    "gemma3_text": 2,
    "gte": 2,
    "modernbert": 2,
    "mpnet": 2,
    "new": 2,
    "nomic_bert": 2,
    "roberta": 2,
    "t5": 1,
    "xlm-roberta": 2,
}


@dataclass(frozen=True, slots=True)
class License:
    """A model's terms."""

    #: The name that `--accept-license` and `accept_license` take.
    name: str
    url: str
    #: Whether the user must accept the terms explicitly.
    must_be_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A published measure of quality, in points of 100."""

    title: str
    #: Which tasks of it.
    about: str
    source: str
    #: The day of the source.
    date: str


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository of a hub, at one commit; at its newest if no commit is known."""

    name: str
    revision: str | None = None
    #: Whether the hub requires a token of an account that has accepted the terms.
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Wheel:
    """A Python distribution that contains the model as package data."""

    distribution: str
    version: str
    package: str
    folder: str


@dataclass(frozen=True, slots=True)
class CatalogGolden:
    """The first components of a text's embedding, as the model's own code gives it."""

    text: str
    prompt: str | None
    head: tuple[float, ...]
    #: The largest allowed difference of a component of an fp32 artifact.
    tolerance: float


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One model."""

    name: str
    license: License
    #: Tried in this order, after the wheel.
    repositories: tuple[HubRepository, ...]
    wheel: Wheel | None = None
    #: `embed`, or `classify`; see `embedder.core.artifact.Manifest`.
    task: str = "embed"
    #: SHA-256 of files, by their path in the folder, wherever the model comes from.
    sha256: Mapping[str, str] = field(default_factory=dict)
    #: The full number of dimensions, then the smaller ones that the model was trained for; none of
    #: a classifier.
    dimensions: tuple[int, ...] = ()
    #: The limit in tokens that the model's files state; None without one. The files decide.
    max_tokens: int | None = None
    languages: str = ""
    #: When to choose it: one sentence.
    choose: str = ""
    #: Points by the key of a benchmark in `BENCHMARKS`; none if its source has no result.
    quality: Mapping[str, float] = field(default_factory=dict)
    #: Its main use.
    group: str = ""
    #: The measured shape of its kind, a key of `measured.json`.
    shape: str = ""
    #: Prompts that the model's card states and its files do not.
    prompts: Mapping[str, str] = field(default_factory=dict)
    #: The default prompt, if the model's files name none.
    default_prompt: str | None = None
    golden: tuple[CatalogGolden, ...] = ()
    #: The digest of its weights in the name of its vector space, if known.
    source: str | None = None
    #: The `model_type` of its `config.json`.
    family: str = ""
    #: Prompts in its own files that, with the family, identify it and models tuned from it.
    own_prompts: Mapping[str, str] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        """The name without the organization."""
        return self.name.rpartition("/")[2]

    @property
    def text_tokens(self) -> int | None:
        """The most tokens of a text without a prompt; None without a limit.

        Of a family whose special tokens are not known here, they count as tokens of the text.
        """
        if self.max_tokens is None:
            return None
        return self.max_tokens - _SPECIAL_TOKENS.get(self.family, 0)

    @property
    def pin(self) -> str:
        """How exactly the first repository is pinned: `hashes`, `commit` or `unverified`.

        `hashes` means that the SHA-256 of the weights is known too. Without a commit, the first
        download decides, and its manifest records the commit.
        """
        if self.repositories[0].revision is None:
            return "unverified"
        return "hashes" if self.sha256 else "commit"


def _entries(models: Iterable[dict[str, Any]]) -> Iterator[CatalogEntry]:
    licenses = {name: License(name, **terms) for name, terms in _STATED["licenses"].items()}
    for values in models:
        own = {key: values.pop(key) for key in ("revision", "gated") if key in values}
        yield CatalogEntry(
            license=licenses[values.pop("license")],
            repositories=(
                HubRepository(values["name"], **own),
                *(HubRepository(**mirror) for mirror in values.pop("mirrors", ())),
            ),
            wheel=Wheel(**values.pop("wheel")) if "wheel" in values else None,
            dimensions=tuple(values.pop("dimensions", ())),
            golden=tuple(
                CatalogGolden(**{**golden, "head": tuple(golden["head"])})
                for golden in values.pop("golden", ())
            ),
            **values,
        )


_STATED = tomllib.loads(CATALOG_FILE.read_text(encoding="utf-8"))
#: Where published quality comes from, by the keys of `CatalogEntry.quality`.
BENCHMARKS = {key: Benchmark(**facts) for key, facts in _STATED["benchmarks"].items()}
#: The models in the order of the list, those of one main use together.
CATALOG = tuple(_entries(_STATED["models"]))


def find(name: str) -> CatalogEntry | None:
    """Return the entry with that name, with or without its organization, in any case; or None."""
    wanted = name.lower()
    for entry in CATALOG:
        if wanted in {entry.name.lower(), entry.short_name.lower()}:
            return entry
    return None


def recognize(*, family: str, source: str, prompts: Mapping[str, str]) -> CatalogEntry | None:
    """Return the entry of a model that is recognized by its content alone; or None.

    `source` is the digest of its weights in the name of its vector space.
    """
    for entry in CATALOG:
        if source == entry.source:
            return entry
        own = entry.own_prompts.items()
        if own and family == entry.family and own <= prompts.items():
            return entry
    return None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One shape, compiled to int8. Times are ratios to the reference shape in the same run."""

    #: The size of the artifact.
    megabytes: float
    #: The peak of a process in MB, after a text of so many tokens: 512, and more up to its limit.
    memory: Mapping[int, float]
    #: CPU time of one text with 32 tokens.
    tokens_32: float
    #: CPU time of one text with 256 tokens.
    tokens_256: float
    #: CPU time from the start of the process until it can answer.
    start: float

    @property
    def memory_mb(self) -> dict[int, int]:
        """The smallest sensible memory of a function by the tokens of its longest text.

        A quarter above the peak, for the runtime and for the texts themselves, in steps of 128 MB.
        """
        return {tokens: 128 * math.ceil(1.25 * peak / 128) for tokens, peak in self.memory.items()}


@dataclass(frozen=True, slots=True)
class Measurements:
    """The content of `measured.json`."""

    #: The shape with the ratios 1: that of the model in `environments/dev.toml`.
    reference: str
    #: Milliseconds of CPU time of the reference: `start`, `tokens_32` and `tokens_256`.
    milliseconds: Mapping[str, float]
    #: The machine, in words.
    machine: str
    shapes: Mapping[str, Measurement]


@functools.cache
def measurements() -> Measurements:
    """Return the measurements of all shapes."""
    value = json.loads(MEASURED_FILE.read_text(encoding="utf-8"))
    shapes = {}
    for name, numbers in value.pop("shapes").items():
        memory = {int(tokens): peak for tokens, peak in numbers.pop("memory").items()}
        shapes[name] = Measurement(**numbers, memory=memory)
    return Measurements(**value, shapes=shapes)


#: The ratios of every static model that was measured: it reads a row for each token.
STATIC = (0.03, 0.01)
#: The keys of each size: DistilBERT, T5 and Nomic BERT have their own names.
_LAYERS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")
_WIDTH = ("hidden_size", "dim", "d_model", "n_embd")
_HEADS = ("num_attention_heads", "n_heads", "num_heads", "n_head")
_INNER = ("intermediate_size", "hidden_dim", "d_ff", "n_inner")
#: Families with a third matrix in their feed-forward layers.
_GATED = {
    "embedding_gemma2_text",
    "eurobert",
    "gemma3_text",
    "gte",
    "mistral",
    "modernbert",
    "new",
    "nomic_bert",
    "qwen2",
    "qwen3",
}
#: Layers times width, and multiplications for a token, of the reference: all-MiniLM-L6-v2.
_ELEMENTS, _PRODUCTS = 6 * 384, 6 * (4 * 384**2 + 2 * 384 * 1536)
#: The part of the reference's time that follows the elements; the rest follows the products.
#: Fitted to the measured shapes of BERT, which it gives to 10%.
_OF_ELEMENTS = 0.58
#: Measured over estimated times of the families that this does not fit, for 32 and 256 tokens.
_FACTORS = {
    "albert": (0.87, 0.98),
    "eurobert": (0.88, 0.89),
    "gemma3_text": (0.69, 0.73),
    "modernbert": (0.82, 0.87),
    "qwen3": (0.79, 1.0),
    "t5": (0.85, 0.88),
}


def estimate(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the times of texts with 32 and 256 tokens, as multiples of the reference's.

    None if the sizes are missing; the family is not checked.
    """
    if config.get("model_type") == "model2vec":
        return STATIC
    if isinstance(config.get("text_config"), Mapping):
        # Of a model for images too, only the language model is served.
        config = config["text_config"]
    sizes = [_first(config, keys) for keys in (_LAYERS, _WIDTH, _HEADS, _INNER)]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    layers, width, heads, inner = sizes
    family = config.get("model_type")
    head = config.get("head_dim") or config.get("d_kv") or width // heads
    groups = config.get("num_key_value_heads") or heads
    attention = 2 * width * head * (heads + groups)
    feed_forward = (2 + _is_gated(config)) * width * inner
    products = layers * attention + _feed_forwards(config, layers) * feed_forward
    time = _OF_ELEMENTS * layers * width / _ELEMENTS + (1 - _OF_ELEMENTS) * products / _PRODUCTS
    short, long = _FACTORS.get(str(family), (1.0, 1.0))
    return round(short * time, 2), round(long * time, 2)


def _is_gated(config: Mapping[str, Any]) -> bool:
    """Return whether feed-forward layers have a third matrix, which some families have at times."""
    if config.get("activation_function") == "gelu":  # Nomic BERT with experts
        return False
    kind = str(config.get("feed_forward_type") or config.get("feed_forward_proj"))
    return config.get("model_type") in _GATED or kind in {"geglu", "gated-gelu"}


def _feed_forwards(config: Mapping[str, Any], layers: int) -> int:
    """Return the number of feed-forward layers that a token takes the time of.

    A layer of experts counts as the token's own experts and one more: the others' weights are read.
    """
    experts, every = config.get("num_experts"), config.get("moe_every_n_layers")
    if not experts or not every:
        return layers
    own: int = config.get("moe_top_k", 1)
    return layers + len(range(1, layers, every)) * own


def _first(config: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((config[key] for key in keys if key in config), None)


def as_json() -> str:
    """Return the catalog as a JSON array with an object for each model; a missing value is null."""
    return json.dumps([described(entry) for entry in CATALOG], ensure_ascii=False, indent=2) + "\n"


def described(entry: CatalogEntry) -> dict[str, Any]:
    """Return what the catalog knows about a model, as JSON values."""
    measured = measurements().shapes.get(entry.shape)
    return {
        "name": entry.name,
        "task": entry.task,
        "group": entry.group,
        "choose": entry.choose,
        "languages": entry.languages,
        "dimensions": list(entry.dimensions),
        "max_tokens": entry.max_tokens,
        "license": entry.license.name,
        "megabytes": measured and measured.megabytes,
        "memory_mb": measured and {str(key): mb for key, mb in measured.memory_mb.items()},
        "tokens_32": measured and measured.tokens_32,
        "tokens_256": measured and measured.tokens_256,
        "quality": dict(entry.quality),
        "family": entry.family,
        "prompts": {**entry.own_prompts, **entry.prompts},
        "default_prompt": entry.default_prompt,
        "revision": entry.repositories[0].revision,
        "pinned_by": entry.pin,
    }


def as_table() -> str:
    """Return a line for each model: how it is pinned, and when to choose it."""
    width = max(len(entry.short_name) for entry in CATALOG)
    return "".join(f"{line}\n" for line in _lines(width))


def _lines(width: int) -> Iterator[str]:
    yield f"{'MODEL':{width}}  {'PINNED':10}  CHOOSE IT FOR"
    for entry in CATALOG:
        yield f"{entry.short_name:{width}}  {entry.pin:10}  {entry.choose}"
    yield ""
    yield "PINNED: by hashes of the files, by a commit, or unverified: the newest is downloaded."
    yield "--json has the other facts. `embed models` has them as a table."
