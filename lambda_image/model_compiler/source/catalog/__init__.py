"""The models that the kit knows by name, one module for each group of families.

Each model is pinned by a commit of its hub repository, and by the SHA-256 of its weights if known.
Prompts and limits come from the model's own files; an entry adds those that only its card states.

Commits without hashes are those of MTEB's registry of models
(https://github.com/embeddings-benchmark/mteb, `mteb/models/model_implementations`, at a905523d).
A repository without a commit is unverified: the first download decides, and the compiler prints
the commit that pins it.
"""

from collections.abc import Mapping

from model_compiler.source.catalog.bert import BERT
from model_compiler.source.catalog.bert_search import BERT_SEARCH
from model_compiler.source.catalog.entry import (
    CatalogEntry,
    Golden,
    License,
    Repository,
    Wheel,
)
from model_compiler.source.catalog.gemma import GEMMA_MODELS
from model_compiler.source.catalog.long_texts import LONG_TEXTS
from model_compiler.source.catalog.multilingual import MULTILINGUAL
from model_compiler.source.catalog.roberta import ROBERTA
from model_compiler.source.catalog.static import STATIC

__all__ = [
    "CATALOG",
    "GROUPS",
    "CatalogEntry",
    "Golden",
    "License",
    "Repository",
    "Wheel",
    "find",
    "recognize",
]

#: The models by their main use, in the order of the list.
GROUPS: dict[str, tuple[CatalogEntry, ...]] = {
    "English": (*BERT, *ROBERTA),
    "English, for search": BERT_SEARCH,
    "English, for long texts": LONG_TEXTS,
    "Many languages": (*MULTILINGUAL, *GEMMA_MODELS),
    "Static embeddings": STATIC,
}
CATALOG = tuple(entry for group in GROUPS.values() for entry in group)


def find(name: str) -> CatalogEntry | None:
    """Return the entry with that name, with or without its organization, in any case; or None."""
    wanted = name.lower()
    for entry in CATALOG:
        if wanted in {entry.name.lower(), entry.short_name.lower()}:
            return entry
    return None


def recognize(*, family: str, source: str, prompts: Mapping[str, str]) -> CatalogEntry | None:
    """Return the entry of a model that is recognized by its content alone; or None.

    Args:
        family: Its architecture.
        source: The digest of its weights in the name of its vector space.
        prompts: The prompts of its own files.
    """
    for entry in CATALOG:
        if source == entry.source:
            return entry
        own = entry.own_prompts.items()
        if own and family == entry.family and own <= prompts.items():
            return entry
    return None
