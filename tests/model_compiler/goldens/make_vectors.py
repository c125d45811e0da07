"""Makes the golden vectors and scores of the small models, as their own libraries give them.

Each input is alone in its batch. Without names of files, all of `GOLDENS` are made.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 model2vec==0.10.0 orjson
    scikit-learn==1.9.1 setfit==1.2.0
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_vectors.py [NAME ...]
"""

import importlib.metadata
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
from setfit import SetFitHead
from sklearn.linear_model import LogisticRegression

from tests.model_compiler.goldens import (
    classifier_models,
    prompt_models,
    reranker_models,
    sparse_models,
    static_models,
)
from tests.model_compiler.goldens.families import FAMILIES, open_reference
from tests.model_compiler.goldens.llama_model import write_voyage
from tests.model_compiler.goldens.tiny_models import TEXTS, write_router

HERE = Path(__file__).resolve().parent
#: SetFit's own head divides its logits by it.
TEMPERATURE = 0.5
LIBRARIES = ("torch", "transformers", "sentence-transformers", "model2vec", "tokenizers")


def main() -> None:
    """Write the files, with the versions of the libraries."""
    installed = {item.metadata["Name"]: item.version for item in importlib.metadata.distributions()}
    versions = {name: installed[name] for name in LIBRARIES if name in installed}
    for name in sys.argv[1:] or GOLDENS:
        golden = GOLDENS[name]()
        if name == "rerankers":
            text = json.dumps({"versions": versions, **golden}, indent=1)
            (HERE / "rerankers.json").write_text(f"{text}\n", "utf-8")
        else:
            values = {**golden, "versions": np.array(json.dumps(versions))}
            np.savez_compressed(HERE / f"{name}.npz", **values)


def _families() -> dict[str, Any]:
    """Embed with each family; also keep the configurations as this transformers writes them."""
    vectors: dict[str, Any] = {}
    configs: dict[str, Any] = {}
    for name, family in FAMILIES.items():
        for variant, traits in family.variants.items():
            with TemporaryDirectory() as temporary:
                model = open_reference(family.write(Path(temporary) / "model", **traits))
                vectors[f"{name} {variant}"] = _embedded(model, family.inputs, family.prompt)
                if name == "qwen3" and not traits:
                    vectors["qwen3 query"] = _embedded(model, family.inputs, "query")
                if name == "qwen3" and variant == "whole text":
                    vectors["qwen3 own code"] = _projected(model, family.inputs)
                model.save(f"{temporary}/saved")
                saved = Path(temporary, "saved", "config.json").read_text("utf-8")
                configs.setdefault(name, json.loads(saved))
    (HERE / "newer_configs.json").write_text(json.dumps(configs, indent=1) + "\n", "utf-8")
    return vectors


def _projected(model: SentenceTransformer, texts: Sequence[Any]) -> Any:
    """Embed as voyage-4-nano's own code does: a linear layer on each token, then their mean."""
    with TemporaryDirectory() as temporary:
        linear = torch.from_numpy(write_voyage(Path(temporary) / "model")[1])
    tokens = [model.encode(text, prompt="", output_value="token_embeddings") for text in texts]
    means = torch.stack([(rows @ linear.T).mean(dim=0) for rows in tokens])
    return torch.nn.functional.normalize(means).numpy()


def _static() -> dict[str, Any]:
    from model2vec import StaticModel

    vectors = {}
    for name, traits in static_models.SENTENCE_TRANSFORMERS.items():
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            model = open_reference(static_models.write_sentence_transformers(folder, **traits))
            for prompt in ("query", "document"):
                vectors[f"{name} {prompt}"] = _embedded(model, static_models.TEXTS, prompt)
    for name, traits in static_models.MODEL2VEC.items():
        with TemporaryDirectory() as temporary:
            folder = static_models.write_model2vec(Path(temporary) / "model", **traits)
            static = StaticModel.from_pretrained(folder)
            texts = static_models.TEXTS
            vectors[name] = np.concatenate([static.encode([text]) for text in texts])
    return vectors


def _prompts() -> dict[str, Any]:
    """Embed without the prompt's tokens."""
    vectors = {}
    for name in prompt_models.MODELS:
        with TemporaryDirectory() as temporary:
            folder = prompt_models.write_model_of(Path(temporary) / "model", name)
            model = SentenceTransformer(str(folder), device="cpu")
            for prompt in prompt_models.PROMPTS:
                vectors[f"{name} {prompt}"] = _embedded(model, TEXTS, prompt)
    return vectors


def _routes() -> dict[str, Any]:
    """Embed with the two routes of a Router."""
    with TemporaryDirectory() as temporary:
        folder = write_router(Path(temporary) / "pair")
        model = SentenceTransformer(str(folder), device="cpu")
        query = np.concatenate([model.encode_query([text]) for text in TEXTS])
        document = np.concatenate([model.encode_document([text]) for text in TEXTS])
        model.save(f"{temporary}/saved")
        saved = Path(temporary, "saved", "router_config.json").read_text("utf-8")
        assert saved.split() == (folder / "router_config.json").read_text("utf-8").split(), saved
    return {"query": query, "document": document}


def _sparse() -> dict[str, Any]:
    """Encode each text as a query and as a document."""
    vectors = {}
    for variant, traits in {**sparse_models.VARIANTS, sparse_models.ROUTER: None}.items():
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            if traits is None:
                sparse_models.write_sparse_router(folder)
            else:
                sparse_models.write_sparse(folder, **traits)
            model = SparseEncoder(str(folder), device="cpu")
            for side in ("query", "document"):
                encode = getattr(model, f"encode_{side}")
                rows = [encode([text]).to_dense()[0].numpy() for text in sparse_models.TEXTS]
                vectors[f"{variant}/{side}"] = np.stack(rows)
    vectors[sparse_models.LEXICAL] = _lexical()
    return vectors


def _lexical() -> Any:
    """Encode each text as FlagEmbedding's M3Embedder does, by its formula."""
    with TemporaryDirectory() as temporary:
        folder = sparse_models.write_lexical(Path(temporary) / "model")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModel.from_pretrained(folder).eval()
        head = load_file(folder / "sparse_linear.safetensors")
    unused = {tokenizer.cls_token_id, tokenizer.eos_token_id}
    unused |= {tokenizer.pad_token_id, tokenizer.unk_token_id}
    rows = np.zeros((len(sparse_models.TEXTS), model.config.vocab_size), np.float32)
    for row, text in zip(rows, sparse_models.TEXTS, strict=True):
        inputs = tokenizer(text, truncation=True, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**inputs).last_hidden_state[0]
            logits = hidden @ head["weight"].float().T + head["bias"].float()
        weights = logits.relu()[:, 0].tolist()
        for token, weight in zip(inputs["input_ids"][0].tolist(), weights, strict=True):
            if token not in unused:
                row[token] = max(row[token], weight)
    return rows


def _rerankers() -> dict[str, Any]:
    """Score each pair, with and without the model's activation."""
    scores = {}
    for variant, traits in reranker_models.VARIANTS.items():
        with TemporaryDirectory() as temporary:
            folder = reranker_models.write_reranker(Path(temporary) / "model", **traits)
            model = CrossEncoder(str(folder), device="cpu")
            pairs = [list(pair) for pair in reranker_models.PAIRS]
            none = torch.nn.Identity()
            scores[variant] = {
                "scores": [model.predict([pair])[0].tolist() for pair in pairs],
                "logits": [model.predict([pair], activation_fn=none)[0].tolist() for pair in pairs],
            }
    return scores


def _classifiers() -> dict[str, Any]:
    """Score each text and pair by transformers' pipeline, in the order of the labels."""
    scores: dict[str, Any] = {}
    for variant, traits in classifier_models.VARIANTS.items():
        with TemporaryDirectory() as temporary:
            folder = classifier_models.write_classifier(Path(temporary) / "model", **traits)
            classify = transformers.pipeline(
                "text-classification", str(folder), device="cpu", top_k=None, truncation=True
            )
            names = classify.model.config.id2label.values()
            inputs = [
                {"text": given}
                if isinstance(given, str)
                else {"text": given[0], "text_pair": given[1]}
                for given in classifier_models.INPUTS
            ]
            for kind, options in {"scores": {}, "logits": {"function_to_apply": "none"}}.items():
                rows = [_in_order(classify([each], **options)[0], names) for each in inputs]
                scores[f"{variant}/{kind}"] = np.array(rows, np.float32)
    for name in classifier_models.SETFIT:
        with TemporaryDirectory() as temporary:
            folder = classifier_models.write_setfit(Path(temporary) / "model", name)
            scores[f"setfit, {name}"] = np.array(_setfit(folder, name), np.float32)
    return scores


def _in_order(scored: Sequence[dict[str, Any]], names: Any) -> list[float]:
    by_label = {entry["label"]: entry["score"] for entry in scored}
    return [by_label[name] for name in names]


def _setfit(folder: Path, name: str) -> list[list[float]]:
    """Score the texts as SetFit does: by scikit-learn or its own, on the vectors of the body."""
    kind, rows, settings = classifier_models.SETFIT[name]
    arrays = classifier_models.setfit_head(name)

    def linear(part: slice, classes: int) -> LogisticRegression:
        head = LogisticRegression()
        head.coef_, head.intercept_ = arrays["coef_"][part], arrays["intercept_"][part]
        head.classes_ = np.arange(classes)
        return head

    body = SentenceTransformer(str(folder), device="cpu")
    normalizes = settings.get("normalize_embeddings", False)
    texts = [text for text in classifier_models.INPUTS if isinstance(text, str)]
    vectors = np.concatenate(
        [body.encode([text], normalize_embeddings=normalizes) for text in texts]
    )
    if kind == "SetFitHead":
        own = SetFitHead(
            32, rows, multitarget=name != "torch", device="cpu", temperature=TEMPERATURE
        )
        with torch.no_grad():
            for parameter, array in zip(own.parameters(), arrays.values(), strict=True):
                parameter.copy_(torch.tensor(array) * (TEMPERATURE + own.eps))
        probabilities = own.predict_proba(torch.tensor(vectors))
    elif kind == "LogisticRegression":
        probabilities = linear(slice(None), max(2, rows)).predict_proba(vectors)
    else:
        heads = [linear(slice(row, row + 1), 2) for row in range(rows)]
        probabilities = np.stack([head.predict_proba(vectors)[:, 1] for head in heads], axis=1)
    return probabilities.tolist()


def _embedded(model: SentenceTransformer, inputs: Sequence[Any], prompt: str | None) -> Any:
    """Return the vectors of texts or of token ids, one at a time."""
    named = {"prompt_name": prompt} if prompt else {"prompt": ""}
    vectors = []
    for each in inputs:
        if isinstance(each, str):
            vectors.append(model.encode([each], convert_to_numpy=True, **named))
        else:
            ids = torch.tensor(each)[None]
            with torch.no_grad():
                output = model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
            vectors.append(output["sentence_embedding"].numpy())
    return np.concatenate(vectors).astype(np.float32)


GOLDENS: dict[str, Callable[[], dict[str, Any]]] = {
    "families": _families,
    "static": _static,
    "prompts": _prompts,
    "routes": _routes,
    "sparse": _sparse,
    "rerankers": _rerankers,
    "classifiers": _classifiers,
}

if __name__ == "__main__":
    main()
