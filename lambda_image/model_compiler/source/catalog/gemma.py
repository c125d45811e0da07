"""EmbeddingGemma and its ready export."""

from model_compiler.source.catalog.entry import GEMMA, CatalogEntry, Golden, Repository

__all__ = ["GEMMA_MODELS"]

GEMMA_MODELS: tuple[CatalogEntry, ...] = (
    CatalogEntry(
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
        family="gemma3_text",
        shape="gemma3-24x768",
        languages="over 100",
        max_tokens=2048,
        choose="Search and other tasks in many languages, with vectors that can be shortened.",
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
        own_prompts={
            "query": "task: search result | query: ",
            "document": "title: none | text: ",
        },
    ),
    CatalogEntry(
        name="onnx-community/embeddinggemma-300m-ONNX",
        license=GEMMA,
        repositories=(
            Repository(
                "onnx-community/embeddinggemma-300m-ONNX",
                revision="5090578d9565bb06545b4552f76e6bc2c93e4a66",
            ),
        ),
        family="gemma3_text",
        languages="over 100",
        max_tokens=2048,
        choose="EmbeddingGemma as a ready export, from a repository that is not gated.",
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
)
