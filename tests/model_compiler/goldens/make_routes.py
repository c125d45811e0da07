"""Makes `routes.npz`: the vectors of a Router's two routes, by sentence-transformers.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_routes.py
"""

import tempfile
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from tests.model_compiler.goldens.tiny_models import TEXTS, write_router


def main() -> None:
    """Write the vectors of queries and of documents."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_router(Path(temporary) / "pair")
        model = SentenceTransformer(str(folder), device="cpu")
        query = np.concatenate([model.encode_query([text]) for text in TEXTS])
        document = np.concatenate([model.encode_document([text]) for text in TEXTS])
        model.save(str(Path(temporary) / "saved"))
        saved = Path(temporary, "saved", "router_config.json").read_text("utf-8")
        assert saved.split() == (folder / "router_config.json").read_text("utf-8").split(), saved
    path = Path(__file__).with_name("routes.npz")
    np.savez(path, query=query, document=document)


if __name__ == "__main__":
    main()
