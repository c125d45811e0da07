"""models.json: the models of one function, each with the options of its compile.

The constructs write it, for an image and for a zip:

    {
      "model": {"name": "acme/tuned", "precision": "fp32", "folder": "sources/model"},
      "reranker": {"name": "acme/ranker"},
      "texts": "sources/texts/faq.txt"
    }

`model`, `reranker` and `sparse` are the tables of an environment's file; of `sparse`, `{"kind":
"bm25"}` is no model, but BM25 in the index of the `texts`. `documents` is a Router's
other route: no function serves it, and it encodes the index's `texts` for a function that serves
queries. Options have the names of the command line. Paths are relative to the file.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_compiler.errors import SourceError

#: The task of each model that a function serves with others.
TASKS = {"model": "embed", "reranker": "rerank", "sparse": "sparse"}
_MODELS = (*TASKS, "documents")
_TEXTS = "texts"
_BM25 = {"kind": "bm25"}


@dataclass(frozen=True, slots=True)
class ModelToCompile:
    """A model of the file: its name, its own folder if it has one, and the compiler's options."""

    name: str
    folder: Path | None
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelsFile:
    """The models by their keys, and the file with the texts of the search index."""

    models: dict[str, ModelToCompile]
    texts: Path | None
    #: Whether the index can be searched by words.
    bm25: bool = False

    @classmethod
    def read(cls, path: Path) -> "ModelsFile":
        """Read the file."""
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise SourceError(f"{path} cannot be read: {error}.") from error
        allowed = (*_MODELS, _TEXTS)
        if not isinstance(content, dict) or not {*content} <= {*allowed}:
            raise SourceError(
                f"{path} must be an object with keys of {', '.join(allowed)}; found {content}."
            )
        texts = content.pop(_TEXTS, None)
        bm25 = content.get("sparse") == _BM25
        if bm25:
            del content["sparse"]
        return cls(
            bm25=bm25,
            models={key: _entry(path, key, value) for key, value in content.items()},
            texts=path.parent / texts if texts else None,
        )


def _entry(path: Path, key: str, value: Any) -> ModelToCompile:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise SourceError(f"{path}: {key} must be an object with a name; found {value}.")
    choices = dict(value)
    name, folder = choices.pop("name"), choices.pop("folder", None)
    options = ["--task", "rerank"] if key == "reranker" else []
    for option, choice in choices.items():
        options.append(f"--{option.replace('_', '-')}")
        if choice is not True:
            options.append(",".join(map(str, choice if isinstance(choice, list) else [choice])))
    return ModelToCompile(name, path.parent / folder if folder else None, tuple(options))
