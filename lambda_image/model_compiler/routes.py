"""Compiles the two routes of a Router into two artifacts of one vector space.

An asymmetric pair, such as a small encoder of queries whose vectors lie in the space of a larger
one's documents, is one folder: a Router, then modules that both routes share. A query's vector of
one may be compared with a document's of the other, so both manifests name one space, and hold how
far the two are aligned: measured on the same texts through both. The name is of both, so that no
other artifact has it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from embedder.core.artifact import MANIFEST_FILE, load_artifact
from embedder.core.engine import Engine
from model_compiler.artifact.manifest import DIGITS, manifest_bytes
from model_compiler.artifact.writer import new_folder
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.errors import FidelityError, SourceError, UnsupportedModelError
from model_compiler.fidelity.measure import DenseRows, shipped_documents
from model_compiler.files.folder import files_in, linked_folder
from model_compiler.model.folder import (
    DOCUMENT_PROMPTS,
    MODULES_FILE,
    ROUTER_FILE,
    SETTINGS_FILE,
    ModelFolder,
)
from model_compiler.source import LocalModel

#: The routes, and the prompts that sentence-transformers' encode_query and encode_document take.
ROUTES = {"query": ("query",), "document": DOCUMENT_PROMPTS}


def routes_of(folder: ModelFolder) -> dict[str, ModelFolder]:
    """Return a folder of links for each route; empty if the model has no Router."""
    if not folder.is_router:
        return {}
    inside = folder.modules[0].folder
    config = inside.config(ROUTER_FILE)
    types, structure = config.optional("types"), config.optional("structure")
    parameters = config.optional("parameters") or {}
    config.done()
    if not isinstance(types, dict) or not isinstance(structure, dict):
        config.fail("types and structure", "objects", structure)
    harmless = {"default_route", "allow_empty_key"}
    unsupported = {key for key, value in parameters.items() if value and key not in harmless}
    if {*structure} != {*ROUTES} or unsupported:
        raise UnsupportedModelError(
            f"{config.path}: the compiler can express the routes {' and '.join(ROUTES)}, selected "
            f"by name; found the routes {', '.join(structure) or 'none'}"
            + "".join(f", and {key}" for key in sorted(unsupported))
        )
    return {route: _route(folder, types, structure[route], route) for route in ROUTES}


def _route(folder: ModelFolder, types: dict[str, str], names: list[str], route: str) -> ModelFolder:
    """Return a folder with the modules of a route, and then those after the Router."""
    inside = folder.modules[0].folder.path
    if not isinstance(names, list) or not all(types.get(name) for name in names):
        raise SourceError(f"{inside}: the route {route} must list modules with a type each.")
    shared = folder.json(MODULES_FILE)[1:]
    at = inside.relative_to(folder.path)
    own = [{"path": (at / name).as_posix(), "type": types[name]} for name in names]
    modules = [
        {**module, "idx": number, "name": str(number)}
        for number, module in enumerate([*own, *shared])
    ]
    files = files_in(folder.path)
    files.pop(SETTINGS_FILE, None)
    del files[MODULES_FILE]
    linked = linked_folder(files)
    (linked / MODULES_FILE).write_text(json.dumps(modules), "utf-8")
    config = folder.config(SETTINGS_FILE, optional=True)
    if values := {key: config.optional(key) for key in config}:
        prompts = values.get("prompts") or {}
        named = [name for name in ROUTES[route] if name in prompts]
        values["default_prompt_name"] = (*named, values.get("default_prompt_name"))[0]
        (linked / SETTINGS_FILE).write_text(json.dumps(values), "utf-8")
    return ModelFolder.read(linked)


#: The least share of texts with a query vector that is nearest to the document vector of the same
#: text. Of two encoders that have nothing to do with each other, it is near 0.
ALIGNED = 0.8


def compile_routes(
    source: LocalModel,
    routes: Mapping[str, ModelFolder],
    output: Path,
    options: CompileOptions,
    *,
    only: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Write an artifact for each route, to `output/query` and `output/document`.

    Both are compiled also if one of them is written, `only` that, to `output` itself: they name
    their space and its alignment. Returns the manifests of the written artifacts, by route.
    """
    marker = MANIFEST_FILE if only else f"query/{MANIFEST_FILE}"
    with new_folder(output, marker=marker) as partial:
        contents = {
            route: compile_model(
                replace(source, folder=folder, entry=None), partial / route, options
            )
            for route, folder in routes.items()
        }
        query, document = contents["query"], contents["document"]
        for key, rule in (("dimensions", "have the same dimensions"), ("task", "be of one task")):
            if query[key] != document[key]:
                raise SourceError(
                    f"{source.name}: both routes must {rule}; found {query[key]} for queries and "
                    f"{document[key]} for documents."
                )
        engine_type = DenseRows if query["task"] == "sparse" else Engine
        engines = [
            engine_type.load(load_artifact(partial / route)) for route in ("query", "document")
        ]
        alignment = _alignment(*engines, most=options.documents)
        if options.thresholds and alignment["own_nearest"] < ALIGNED:
            raise FidelityError(
                f"{source.name}: of {alignment['texts']} texts, the query vector of at least "
                f"{ALIGNED:.0%} must be nearest to the document vector of the same text; found "
                f"{alignment['own_nearest']:.0%}. Add --unmeasured to accept these vectors."
            )
        spaces = f"{query['vector_space']}\n{document['vector_space']}"
        name = document["vector_space"].rpartition("/")[0]
        space = f"{name}/{hashlib.sha256(spaces.encode()).hexdigest()[:DIGITS]}"
        for route, content in contents.items():
            content["vector_space"] = space
            content["fidelity"] = {**content["fidelity"], "route": route, "alignment": alignment}
            (partial / route / MANIFEST_FILE).write_bytes(manifest_bytes(content))
        if only is None:
            return contents
        for file in (partial / only).iterdir():
            file.rename(partial / file.name)
        for route in routes:
            shutil.rmtree(partial / route)
        return {only: contents[only]}


def _alignment(query: Engine, document: Engine, *, most: int) -> dict[str, Any]:
    """Compare the vectors of the same texts as queries and as documents."""
    texts = shipped_documents()[:most]
    query_vectors = query.embed(texts, truncate="right").vectors
    stored = document.embed(texts, truncate="right").vectors
    cosines = (query_vectors @ stored.T).astype(np.float64)
    same = cosines.diagonal()
    return {
        "texts": len(texts),
        "cosine_mean": round(float(same.mean()), 7),
        "cosine_min": round(float(same.min()), 7),
        "own_nearest": float((cosines.argmax(axis=1) == np.arange(len(texts))).mean()),
    }
