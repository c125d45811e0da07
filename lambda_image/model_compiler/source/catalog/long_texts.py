"""English models with rotary positions, for texts of up to 8,192 tokens."""

from model_compiler.source.catalog.entry import APACHE, ENGLISH, CatalogEntry, Repository

__all__ = ["LONG_TEXTS"]

NOMIC_PROMPTS = {
    "query": "search_query: ",
    "document": "search_document: ",
    "clustering": "clustering: ",
    "classification": "classification: ",
}

LONG_TEXTS: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        name="Alibaba-NLP/gte-modernbert-base",
        license=APACHE,
        repositories=(
            Repository(
                "Alibaba-NLP/gte-modernbert-base",
                revision="7ca8b4ca700621b67618669f5378fe5f5820b8e4",
            ),
        ),
        family="modernbert",
        shape="modernbert-22x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=8192,
        choose="Long texts and code in English, without prompts.",
    ),
    CatalogEntry(
        name="nomic-ai/modernbert-embed-base",
        license=APACHE,
        repositories=(
            Repository(
                "nomic-ai/modernbert-embed-base",
                revision="5960f1566fb7cb1adf1eb6e816639cf4646d9b12",
            ),
        ),
        family="modernbert",
        shape="modernbert-22x768",
        languages=ENGLISH,
        dimensions=(768, 256),
        max_tokens=8192,
        choose="Long texts in English, with vectors that can be shortened.",
        # https://huggingface.co/nomic-ai/modernbert-embed-base#usage: every text needs a prompt.
        prompts=NOMIC_PROMPTS,
        default_prompt="document",
    ),
    CatalogEntry(
        name="nomic-ai/nomic-embed-text-v1.5",
        license=APACHE,
        repositories=(
            Repository(
                "nomic-ai/nomic-embed-text-v1.5",
                revision="b0753ae76394dd36bcfb912a46018088bca48be0",
            ),
        ),
        family="nomic_bert",
        shape="nomic-12x768",
        languages=ENGLISH,
        dimensions=(768, 512, 256, 128, 64),
        max_tokens=8192,
        choose="Long texts in English, with vectors as short as 64 dimensions.",
        # https://huggingface.co/nomic-ai/nomic-embed-text-v1.5#usage: every text needs a prompt.
        prompts=NOMIC_PROMPTS,
        default_prompt="document",
    ),
)
