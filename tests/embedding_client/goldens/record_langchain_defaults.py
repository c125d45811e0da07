"""Records what LangChain's `OpenAIEmbeddings` sends with its defaults.

    TIKTOKEN_CACHE_DIR=… python tests/embedding_client/goldens/record_langchain_defaults.py

It needs tiktoken's file for `cl100k_base`, which tiktoken downloads, or takes from
TIKTOKEN_CACHE_DIR: litellm's package has it in `litellm/litellm_core_utils/tokenizers`.
"""

import json
from pathlib import Path

import httpx2
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

TEXTS = [
    "hello world",
    "a cat sat on the mat",
    "Members of parliament voted on the new budget.",
    "Grüße aus Köln ☕",
]


def main() -> None:
    """Write texts and the bodies of the requests next to this script."""
    bodies = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        data = [{"index": i, "embedding": [0.0]} for i in range(len(bodies[-1]["input"]))]
        return httpx2.Response(200, json={"data": data, "model": "m", "usage": {}})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        made = OpenAIEmbeddings(model="all-MiniLM-L6-v2", api_key=SecretStr("-"), http_client=http)
        made.embed_documents(TEXTS)
        for text in TEXTS:
            made.embed_query(text)
    golden = {"texts": TEXTS, "requests": bodies}
    path = Path(__file__).with_name("langchain_defaults.json")
    path.write_text(json.dumps(golden, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
