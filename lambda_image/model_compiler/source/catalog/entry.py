"""What the catalog knows about a model: where it is, its terms, and facts for choosing it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "APACHE",
    "E5_PROMPTS",
    "ENGLISH",
    "GEMMA",
    "MIT",
    "SEARCH_QUERY_PROMPT",
    "CatalogEntry",
    "Golden",
    "License",
    "Repository",
    "Wheel",
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
class CatalogEntry:
    """One model."""

    name: str
    license: License
    #: Tried in this order, after the wheel.
    repositories: tuple[Repository, ...]
    wheel: Wheel | None = None
    #: SHA-256 of files, by their path in the folder, wherever the model comes from.
    sha256: Mapping[str, str] = field(default_factory=dict)
    #: The full number of dimensions, then the smaller ones that the model was trained for.
    dimensions: tuple[int, ...] = ()
    #: The limit in tokens that the model's files state; None without one. The files decide.
    max_tokens: int | None = None
    languages: str = ""
    #: When to choose it: one sentence.
    choose: str = ""
    #: The measured shape of its kind, a key of `measured.json`.
    shape: str = ""
    #: Prompts that the model's card states and its files do not.
    prompts: Mapping[str, str] = field(default_factory=dict)
    #: The default prompt, if the model's files name none.
    default_prompt: str | None = None
    golden: tuple[Golden, ...] = ()
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
    def pin(self) -> str:
        """How exactly the first repository is pinned: `hashes`, `commit` or `unverified`.

        `hashes` means that the SHA-256 of the weights is known too. Without a commit, the first
        download decides, and its manifest records the commit.
        """
        if self.repositories[0].revision is None:
            return "unverified"
        return "hashes" if self.sha256 else "commit"


APACHE = License("apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0")
MIT = License("mit", "https://opensource.org/license/mit")
GEMMA = License("gemma", "https://ai.google.dev/gemma/terms", must_be_accepted=True)

ENGLISH = "English"
#: The prompts of e5 models: every text needs one of the two.
E5_PROMPTS = {"query": "query: ", "document": "passage: "}
#: The prompts of bge, arctic and mxbai models: an instruction for queries alone.
SEARCH_QUERY_PROMPT = {
    "query": "Represent this sentence for searching relevant passages: ",
    "document": "",
}
