"""Static embeddings: one vector per token, and their mean."""

from model_compiler.source.catalog.entry import APACHE, ENGLISH, MIT, CatalogEntry, Repository

__all__ = ["STATIC"]

STATIC: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        name="minishlab/potion-base-2M",
        license=MIT,
        repositories=(
            Repository(
                "minishlab/potion-base-2M", revision="389b9f64be5aa4ae7a6bc6fe95ef20ce485ae5da"
            ),
        ),
        family="static",
        shape="static-29528x64",
        languages=ENGLISH,
        dimensions=(64,),
        choose="The least memory; a rough similarity of English texts.",
    ),
    CatalogEntry(
        name="minishlab/potion-base-8M",
        license=MIT,
        repositories=(
            Repository(
                "minishlab/potion-base-8M", revision="bf8b056651a2c21b8d2565580b8569da283cab23"
            ),
        ),
        family="static",
        shape="static-29528x256",
        languages=ENGLISH,
        dimensions=(256,),
        choose="English texts at almost no cost: classification, duplicates, a first selection.",
    ),
    CatalogEntry(
        name="minishlab/potion-base-32M",
        license=MIT,
        repositories=(
            Repository(
                "minishlab/potion-base-32M", revision="1e5a03f8eeb2c98b928fbbd846f22f816360919f"
            ),
        ),
        family="static",
        shape="static-63091x512",
        languages=ENGLISH,
        dimensions=(512,),
        choose="As potion-base-8M, with a larger vocabulary and vectors.",
    ),
    CatalogEntry(
        name="minishlab/potion-retrieval-32M",
        license=MIT,
        repositories=(
            Repository(
                "minishlab/potion-retrieval-32M",
                revision="6fc8051fab2a1e0ee76689cf08c853792ac285e7",
            ),
        ),
        family="static",
        shape="static-63091x512",
        languages=ENGLISH,
        dimensions=(512,),
        choose="Search in English at almost no cost.",
    ),
    CatalogEntry(
        name="sentence-transformers/static-retrieval-mrl-en-v1",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/static-retrieval-mrl-en-v1",
                revision="f60985c706f192d45d218078e49e5a8b6f15283a",
            ),
        ),
        family="static",
        shape="static-30522x1024",
        languages=ENGLISH,
        dimensions=(1024, 512, 256, 128, 64, 32),
        choose="Search in English at almost no cost, with vectors that can be shortened.",
        # https://huggingface.co/sentence-transformers/static-retrieval-mrl-en-v1
    ),
    CatalogEntry(
        name="sentence-transformers/static-similarity-mrl-multilingual-v1",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/static-similarity-mrl-multilingual-v1",
                revision="7264ea07c5365a11d7e6d87dbb6195889a13054f",
            ),
        ),
        family="static",
        shape="static-105879x1024",
        languages="about 50",
        dimensions=(1024, 512, 256, 128, 64, 32),
        choose="Similarity of sentences in many languages at almost no cost.",
    ),
)
