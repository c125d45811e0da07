"""The common parts of small models' folders: JSON, special tokens, random values, names."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

Tensors = dict[str, npt.NDArray[Any]]

#: The keys of the pooling modes in older folders, after `pooling_mode_`.
POOLING_KEYS = {
    "cls": "cls_token",
    "max": "max_tokens",
    "mean": "mean_tokens",
    "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean": "weightedmean_tokens",
    "lasttoken": "lasttoken",
}


def read_json(path: Path) -> Any:
    """Return the value of a JSON file."""
    return json.loads(path.read_text("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")


def edit_json(
    path: Path, change: Callable[[Any], Any] | None = None, /, **changes: Any
) -> dict[str, Any]:
    """Change the value in a file by a function, or keys of its object, and return it.

    A file that is not there has an empty object.
    """
    value = read_json(path) if path.exists() else {}
    value = {**value, **changes} if change is None else change(value)
    write_json(path, value)
    return value


def write_modules(folder: Path, *modules: tuple[str, str]) -> None:
    """Write `modules.json` with the class and the path of each module."""
    values = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (kind, path) in enumerate(modules)
    ]
    write_json(folder / "modules.json", values)


def write_model_settings(
    folder: Path, prompts: Mapping[str, str], *, version: str = "6.2.0", **more: Any
) -> None:
    """Write `config_sentence_transformers.json`, as a version of the library does."""
    values = {"prompts": dict(prompts), "default_prompt_name": None, **more}
    path = folder / "config_sentence_transformers.json"
    write_json(path, {"__version__": {"sentence_transformers": version}, **values})


def write_router_files(
    folder: Path,
    types: Mapping[str, str],
    structure: Mapping[str, Sequence[str]],
    *after: tuple[str, str],
) -> None:
    """Write the modules of a Router's routes, and those that both share after it."""
    parameters = {"default_route": "document", "allow_empty_key": True, "route_mappings": {}}
    values = {"types": types, "structure": structure, "parameters": parameters}
    write_json(folder / "router_config.json", values)
    write_modules(folder, ("sentence_transformers.base.modules.router.Router", ""), *after)


def special_tokens(ids: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the added tokens of a `tokenizer.json`."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": number, "content": token, **flags, "special": True} for token, number in ids.items()
    ]


def post_processor(
    ids: Mapping[str, int],
    prefix: Sequence[str],
    suffix: Sequence[str],
    between: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what puts tokens around a text, and between the two of a pair."""
    before, middle, after = (
        [{"SpecialToken": {"id": token, "type_id": 0}} for token in side]
        for side in (prefix, between, suffix)
    )
    text, following = (
        {"Sequence": {"id": name, "type_id": kind}} for kind, name in enumerate("AB")
    )
    return {
        "type": "TemplateProcessing",
        "single": [*before, text, *after],
        "pair": [*before, text, *middle, following, *after],
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in (*prefix, *suffix)
        },
    }


def respelled(
    tensors: Tensors, names: Mapping[str, str], joined: Mapping[str, Sequence[str]]
) -> Tensors:
    """Return tensors with the names of a model's own code.

    `joined` has the parts of a matrix by its name; then the keys of `names` become their values.
    """
    renamed = dict(tensors)
    for joined_name, (leading, *following) in joined.items():
        for name in [tensor for tensor in renamed if f"{leading}." in tensor]:
            pieces = [renamed.pop(name.replace(leading, piece)) for piece in (leading, *following)]
            renamed[name.replace(leading, joined_name)] = np.concatenate(pieces)
    for newer, own in names.items():
        renamed = {name.replace(newer, own): tensor for name, tensor in renamed.items()}
    return renamed


def change_tensors(folder: Path, change: Any) -> None:
    """Replace the tensors of a folder by what a function makes of them."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path)
