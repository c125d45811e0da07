"""English models of BERT's family for search, with a prompt for queries."""

from model_compiler.source.catalog.entry import (
    APACHE,
    E5_PROMPTS,
    ENGLISH,
    MIT,
    SEARCH_QUERY_PROMPT,
    CatalogEntry,
    Repository,
)

__all__ = ["BERT_SEARCH"]

BERT_SEARCH: tuple[CatalogEntry, ...] = (
    CatalogEntry(
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
        family="bert",
        shape="bert-12x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=512,
        choose="Search in English at a small size.",
        # https://huggingface.co/BAAI/bge-small-en-v1.5#usage: documents go without an instruction.
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
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
        family="bert",
        shape="bert-12x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=512,
        choose="Search in English if bge-small is not accurate enough.",
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
        name="BAAI/bge-large-en-v1.5",
        license=MIT,
        repositories=(
            Repository(
                "BAAI/bge-large-en-v1.5", revision="d4aa6901d3a41ba39fb536a557fa166f842b0e09"
            ),
        ),
        family="bert",
        shape="bert-24x1024",
        languages=ENGLISH,
        dimensions=(1024,),
        max_tokens=512,
        choose="Search in English if accuracy matters more than cost.",
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
        name="intfloat/e5-small-v2",
        license=MIT,
        repositories=(
            Repository("intfloat/e5-small-v2", revision="ffb93f3bd4047442299a41ebb6fa998a38507c52"),
        ),
        sha256={
            "model.safetensors": "45bfa60070649aae2244fbc9d508537779b93b6f353c17b0f95ceccb1c5116c1",
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
        family="bert",
        shape="bert-12x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=512,
        choose="Search in English at a small size, with a prompt for each side.",
        # https://huggingface.co/intfloat/e5-small-v2#faq: every text needs one of the two.
        prompts=E5_PROMPTS,
        default_prompt="document",
    ),
    CatalogEntry(
        name="intfloat/e5-base-v2",
        license=MIT,
        repositories=(
            Repository("intfloat/e5-base-v2", revision="1c644c92ad3ba1efdad3f1451a637716616a20e8"),
        ),
        family="bert",
        shape="bert-12x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=512,
        choose="Search in English, if you use e5-small-v2 and need more accuracy.",
        prompts=E5_PROMPTS,
        default_prompt="document",
    ),
    CatalogEntry(
        name="intfloat/e5-large-v2",
        license=MIT,
        repositories=(
            Repository("intfloat/e5-large-v2", revision="b322e09026e4ea05f42beadf4d661fb4e101d311"),
        ),
        family="bert",
        shape="bert-24x1024",
        languages=ENGLISH,
        dimensions=(1024,),
        max_tokens=512,
        choose="The largest of this series, for existing vectors of it.",
        prompts=E5_PROMPTS,
        default_prompt="document",
    ),
    CatalogEntry(
        name="Snowflake/snowflake-arctic-embed-xs",
        license=APACHE,
        repositories=(
            Repository(
                "Snowflake/snowflake-arctic-embed-xs",
                revision="742da4f66e1823b5b4dbe6c320a1375a1fd85f9e",
            ),
        ),
        family="bert",
        shape="bert-6x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=512,
        choose="Search in English at the smallest size with 512 tokens.",
        # https://huggingface.co/Snowflake/snowflake-arctic-embed-xs#usage
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
        name="Snowflake/snowflake-arctic-embed-s",
        license=APACHE,
        repositories=(
            Repository(
                "Snowflake/snowflake-arctic-embed-s",
                revision="d3c1d2d433dd0fdc8e9ca01331a5f225639e798f",
            ),
        ),
        family="bert",
        shape="bert-12x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=512,
        choose="Search in English at a small size.",
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
        name="Snowflake/snowflake-arctic-embed-m",
        license=APACHE,
        repositories=(
            Repository(
                "Snowflake/snowflake-arctic-embed-m",
                revision="cc17beacbac32366782584c8752220405a0f3f40",
            ),
        ),
        family="bert",
        shape="bert-12x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=512,
        choose="For existing vectors of it; else take version 1.5.",
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
        name="Snowflake/snowflake-arctic-embed-m-v1.5",
        license=APACHE,
        repositories=(
            Repository(
                "Snowflake/snowflake-arctic-embed-m-v1.5",
                revision="97eab2e17fcb7ccb8bb94d6e547898fa1a6a0f47",
            ),
        ),
        family="bert",
        shape="bert-12x768",
        languages=ENGLISH,
        dimensions=(768, 256),
        max_tokens=512,
        choose="Search in English with short vectors: trained for 256 dimensions.",
        # https://huggingface.co/Snowflake/snowflake-arctic-embed-m-v1.5
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
        name="Snowflake/snowflake-arctic-embed-l",
        license=APACHE,
        repositories=(
            Repository(
                "Snowflake/snowflake-arctic-embed-l",
                revision="9a9e5834d2e89cdd8bb72b64111dde496e4fe78c",
            ),
        ),
        family="bert",
        shape="bert-24x1024",
        languages=ENGLISH,
        dimensions=(1024,),
        max_tokens=512,
        choose="Search in English if accuracy matters more than cost.",
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
    CatalogEntry(
        name="mixedbread-ai/mxbai-embed-large-v1",
        license=APACHE,
        repositories=(
            Repository(
                "mixedbread-ai/mxbai-embed-large-v1",
                revision="990580e27d329c7408b3741ecff85876e128e203",
            ),
        ),
        family="bert",
        shape="bert-24x1024",
        languages=ENGLISH,
        dimensions=(1024, 512),
        max_tokens=512,
        choose="Search in English, with vectors that can be shortened.",
        # https://huggingface.co/mixedbread-ai/mxbai-embed-large-v1#usage
        # The card's example truncates to 512.
        prompts=SEARCH_QUERY_PROMPT,
        default_prompt="document",
    ),
)
