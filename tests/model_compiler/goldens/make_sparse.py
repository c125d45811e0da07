"""Makes the golden vectors of the small sparse encoders, as sentence-transformers gives them.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_sparse.py
"""

import importlib.metadata
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SparseEncoder

from tests.model_compiler.goldens.sparse_models import (
    ROUTER,
    TEXTS,
    VARIANTS,
    write_sparse,
    write_sparse_router,
)

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Encode each text alone, as a query and as a document."""
    libraries = ("torch", "transformers", "sentence-transformers", "tokenizers")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in libraries]
    golden: dict[str, Any] = {"versions": np.array(versions)}
    for variant, traits in {**VARIANTS, ROUTER: None}.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            if traits is None:
                folder.mkdir()
                write_sparse_router(folder)
            else:
                write_sparse(folder, **traits)
            model = SparseEncoder(str(folder), device="cpu")
            for side in ("query", "document"):
                encode = getattr(model, f"encode_{side}")
                rows = [encode([text]).to_dense()[0].numpy() for text in TEXTS]
                golden[f"{variant}/{side}"] = np.stack(rows)
    np.savez_compressed(HERE / "sparse.npz", **golden)


if __name__ == "__main__":
    main()
