"""English models of the families of RoBERTa, MPNet and DistilBERT."""

from model_compiler.source.catalog.entry import APACHE, ENGLISH, CatalogEntry, Repository

__all__ = ["ROBERTA"]

ROBERTA: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        name="sentence-transformers/all-mpnet-base-v2",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/all-mpnet-base-v2",
                revision="9a3225965996d404b775526de6dbfe85d3368642",
            ),
        ),
        family="mpnet",
        shape="mpnet-12x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=384,
        choose="Similarity of English sentences and paragraphs, without prompts.",
    ),
    CatalogEntry(
        name="sentence-transformers/multi-qa-mpnet-base-cos-v1",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/multi-qa-mpnet-base-cos-v1",
                revision="d51b22a1dfa8184e9258074e56e2875e50612dca",
            ),
        ),
        family="mpnet",
        shape="mpnet-12x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=512,
        choose="Search with questions in English, without prompts.",
    ),
    CatalogEntry(
        name="sentence-transformers/all-distilroberta-v1",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/all-distilroberta-v1",
                revision="842eaed40bee4d61673a81c92d5689a8fed7a09f",
            ),
        ),
        family="roberta",
        shape="roberta-6x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=512,
        choose="Similarity in upper and lower case: half the layers of all-mpnet-base-v2.",
    ),
    CatalogEntry(
        name="sentence-transformers/multi-qa-distilbert-cos-v1",
        license=APACHE,
        repositories=(Repository("sentence-transformers/multi-qa-distilbert-cos-v1"),),
        family="distilbert",
        shape="distilbert-6x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=512,
        choose="Search with questions in English: half the layers of multi-qa-mpnet-base-cos-v1.",
    ),
)
