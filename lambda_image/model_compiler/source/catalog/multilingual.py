"""Multilingual models of several families."""

from model_compiler.source.catalog.entry import (
    APACHE,
    E5_PROMPTS,
    MIT,
    CatalogEntry,
    Repository,
)

__all__ = ["MULTILINGUAL"]

ABOUT_100 = "about 100"

MULTILINGUAL: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        name="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
                revision="bf3bf13ab40c3157080a7ab344c831b9ad18b5eb",
            ),
        ),
        family="bert",
        shape="bert-12x384-multilingual",
        languages="over 50",
        dimensions=(384,),
        max_tokens=128,
        choose="Similarity of sentences across languages, without prompts.",
    ),
    CatalogEntry(
        name="sentence-transformers/paraphrase-multilingual-mpnet-base-v2",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/paraphrase-multilingual-mpnet-base-v2",
                revision="79f2382ceacceacdf38563d7c5d16b9ff8d725d6",
            ),
        ),
        family="xlm-roberta",
        shape="xlm-roberta-12x768",
        languages="over 50",
        dimensions=(768,),
        max_tokens=128,
        choose="As paraphrase-multilingual-MiniLM-L12-v2, with twice the width.",
    ),
    CatalogEntry(
        name="intfloat/multilingual-e5-small",
        license=MIT,
        repositories=(
            Repository(
                "intfloat/multilingual-e5-small",
                revision="fd1525a9fd15316a2d503bf26ab031a61d056e98",
            ),
        ),
        family="bert",
        shape="bert-12x384-multilingual",
        languages=ABOUT_100,
        dimensions=(384,),
        max_tokens=512,
        choose="Search in many languages at a small size.",
        # https://huggingface.co/intfloat/multilingual-e5-small#faq
        prompts=E5_PROMPTS,
        default_prompt="document",
    ),
    CatalogEntry(
        name="intfloat/multilingual-e5-base",
        license=MIT,
        repositories=(
            Repository(
                "intfloat/multilingual-e5-base", revision="d13f1b27baf31030b7fd040960d60d909913633f"
            ),
        ),
        family="xlm-roberta",
        shape="xlm-roberta-12x768",
        languages=ABOUT_100,
        dimensions=(768,),
        max_tokens=512,
        choose="Search in many languages if multilingual-e5-small is not accurate enough.",
        prompts=E5_PROMPTS,
        default_prompt="document",
    ),
    CatalogEntry(
        name="intfloat/multilingual-e5-large",
        license=MIT,
        repositories=(
            Repository(
                "intfloat/multilingual-e5-large",
                revision="ab10c1a7f42e74530fe7ae5be82e6d4f11a719eb",
            ),
        ),
        family="xlm-roberta",
        shape="xlm-roberta-24x1024",
        languages=ABOUT_100,
        dimensions=(1024,),
        max_tokens=512,
        choose="Search in many languages if accuracy matters more than cost.",
        prompts=E5_PROMPTS,
        default_prompt="document",
    ),
    CatalogEntry(
        name="BAAI/bge-m3",
        license=MIT,
        repositories=(
            Repository("BAAI/bge-m3", revision="5617a9f61b028005a4858fdac845db406aefb181"),
        ),
        family="xlm-roberta",
        shape="xlm-roberta-24x1024",
        languages="over 100",
        dimensions=(1024,),
        max_tokens=8192,
        choose="Long texts in many languages, without prompts. Its dense vectors alone are served.",
    ),
    CatalogEntry(
        name="Snowflake/snowflake-arctic-embed-l-v2.0",
        license=APACHE,
        repositories=(
            Repository(
                "Snowflake/snowflake-arctic-embed-l-v2.0",
                revision="edc2df7b6c25794b340229ca082e7c78782e6374",
            ),
        ),
        family="xlm-roberta",
        shape="xlm-roberta-24x1024",
        languages="over 70",
        dimensions=(1024, 256),
        max_tokens=8192,
        choose="Long texts in many languages, with vectors that can be shortened.",
        # https://huggingface.co/Snowflake/snowflake-arctic-embed-l-v2.0#usage
        prompts={"query": "query: ", "document": ""},
        default_prompt="document",
    ),
    CatalogEntry(
        name="Qwen/Qwen3-Embedding-0.6B",
        license=APACHE,
        repositories=(
            Repository(
                "Qwen/Qwen3-Embedding-0.6B", revision="b22da495047858cce924d27d76261e96be6febc0"
            ),
        ),
        family="qwen3",
        shape="qwen3-28x1024",
        languages="over 100",
        dimensions=(1024, 768, 512, 256, 128, 64, 32),
        max_tokens=32768,
        choose="Search in many languages and code, with an instruction of your own for queries.",
        # https://huggingface.co/Qwen/Qwen3-Embedding-0.6B: any size from 32 to 1024.
        prompts={
            "query": "Instruct: Given a web search query, retrieve relevant passages that "
            "answer the query\nQuery:",
            "document": "",
        },
        default_prompt="document",
    ),
)
