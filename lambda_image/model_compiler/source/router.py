"""Splits a Router of sentence-transformers into the models of its two routes.

An asymmetric pair, such as a small encoder of queries whose vectors lie in the space of a larger
one's documents, is one folder: a Router, then modules that both routes share.
"""

import json
from pathlib import Path

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.model.folder import DOCUMENT_PROMPTS, read_modules
from model_compiler.source.linked import files_in, linked_folder

#: The routes, and the prompts that sentence-transformers' encode_query and encode_document take.
ROUTES = {"query": ("query",), "document": DOCUMENT_PROMPTS}
MODULES, SENTENCES = "modules.json", "config_sentence_transformers.json"


def routes_of(folder: Path) -> dict[str, Path]:
    """Return a folder of links for each route; empty if the model has no Router."""
    if not (folder / MODULES).exists():
        return {}
    found = read_modules(folder)
    if [kind for kind, _ in found][:1] != ["Router"]:
        return {}
    inside = found[0][1]
    config = ConfigFile(inside / "router_config.json")
    types, structure = config.optional("types"), config.optional("structure")
    parameters = config.optional("parameters") or {}
    config.done()
    if not isinstance(types, dict) or not isinstance(structure, dict):
        config.fail("types and structure", "objects", structure)
    known = {"default_route", "allow_empty_key"}
    others = {key for key, value in parameters.items() if value and key not in known}
    if {*structure} != {*ROUTES} or others:
        raise UnsupportedModelError(
            f"{config.path}: the compiler can express the routes {' and '.join(ROUTES)}, selected "
            f"by name; found the routes {', '.join(structure) or 'none'}"
            + "".join(f", and {key}" for key in sorted(others))
        )
    return {route: _route(folder, inside, types, structure[route], route) for route in ROUTES}


def _route(folder: Path, inside: Path, types: dict[str, str], names: list[str], route: str) -> Path:
    """Return a folder with the modules of a route, and then those after the Router."""
    if not isinstance(names, list) or not all(types.get(name) for name in names):
        raise SourceError(f"{inside}: the route {route} must list modules with a type each.")
    shared = json.loads((folder / MODULES).read_text("utf-8"))[1:]
    at = inside.relative_to(folder)
    own = [{"path": (at / name).as_posix(), "type": types[name]} for name in names]
    modules = [
        {**module, "idx": number, "name": str(number)}
        for number, module in enumerate([*own, *shared])
    ]
    files = files_in(folder)
    sentences = files.pop(SENTENCES, None)
    del files[MODULES]
    linked = linked_folder(files)
    (linked / MODULES).write_text(json.dumps(modules), "utf-8")
    if sentences:
        values = json.loads(sentences.read_text("utf-8"))
        prompts = values.get("prompts") or {}
        named = [name for name in ROUTES[route] if name in prompts]
        values["default_prompt_name"] = (named or [values.get("default_prompt_name")])[0]
        (linked / SENTENCES).write_text(json.dumps(values), "utf-8")
    return linked
