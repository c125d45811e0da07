"""Writes the parts of the documentation that are generated from the code.

python docs/generate.py [FILE ...]
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import embedding_kit
from embedder.http.apis import classify, rerank, search, sparse
from embedder.http.router import ROUTES
from embedding_client import errors
from model_compiler.source.catalog import BENCHMARKS, CATALOG, described, measurements
from stacks.descriptions import export_schema
from stacks.environment import EnvironmentSettings

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
import page_tables as tables
import speed_tables
from commands_page import commands_page
from pictures import charts, demo, diagrams
from settings_page import settings_page

ROOT = Path(__file__).resolve().parents[1]
_APIS = {
    "native": "native",
    "openai": "OpenAI",
    "tei": "TEI",
    "cohere": "Cohere",
    "embedding_server": "embedding server",
}


def paths_table() -> str:
    """Return a table with a row for each path of the service."""
    rows = ["|request|API|description|", "|---|---|---|"]
    routes_by_kind: dict[str, Any] = {
        "": ROUTES,
        ", of an index": search.ROUTES,
        ", of a reranker": rerank.ROUTES,
        ", of a classifier": classify.ROUTES,
        ", of a sparse encoder": sparse.ROUTES,
    }
    for kind, routes in routes_by_kind.items():
        for path in [path for path in routes if not kind or path not in ROUTES]:
            for method, operation in routes[path].items():
                api = f"{_APIS[operation.api.name]}{kind}"
                rows.append(f"|`{method} {path}`|{api}|{operation.summary}|")
    return "\n".join(rows)


def errors_tree() -> str:
    """Return the tree in the docstring of the client's errors."""
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    lines = [line.removeprefix("    ") for line in tree.rstrip().splitlines()]
    return "\n".join(["```text", *lines, "```"])


def with_block(text: str, name: str, content: str) -> str:
    """Put content between `<!-- name: … -->` and `<!-- end of name -->`."""
    pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    replaced, count = pattern.subn(lambda match: f"{match[1]}{content}\n{match[2]}", text)
    if count != 1:
        raise ValueError(f"there must be one block named {name}; found {count}")
    return replaced


def environment_schema() -> str:
    """Return the JSON Schema of an environment's file."""
    return json.dumps(export_schema(EnvironmentSettings), indent=2, ensure_ascii=False) + "\n"


def catalog_facts() -> str:
    """Return what the settings know of the catalog's models: dimensions, tokens of a text, MB."""
    shapes = measurements().shapes
    lines = []
    for entry in CATALOG:
        facts: dict[str, object] = {"dimensions": entry.dimensions}
        if entry.task != "embed":
            facts["task"] = entry.task
        if entry.text_tokens is not None:
            facts["text_tokens"] = entry.text_tokens
        if entry.shape in shapes:
            facts["megabytes"] = shapes[entry.shape].megabytes
        lines.append(f'  "{entry.name}": {_json(facts)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def client_models() -> str:
    """Return the file of `embed models`: a line for each benchmark and model."""
    lines = ",\n".join
    benchmarks = [f'"{key}": {_json(asdict(value))}' for key, value in BENCHMARKS.items()]
    models = [_json(described(entry)) for entry in CATALOG]
    return f'{{"benchmarks": {{\n{lines(benchmarks)}\n}}, "models": [\n{lines(models)}\n]}}\n'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _page(path: str) -> str:
    """Return a page with its generated blocks."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for name, content in _BLOCKS[path].items():
        text = with_block(text, name, content())
    return speed_tables.with_numbers(text, path)


_SETTINGS_HEAD = """### Settings

Their arguments are [those of an environment's file](settings.md).
"""


def classes() -> str:
    """Return directives that show the docstrings of all constructs and settings.

    The constructs are in the order of their table on the page, and those that it lacks at the end.
    """
    page = (ROOT / "docs/constructs.md").read_text(encoding="utf-8")
    order = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*? \|", page, re.MULTILINE)))
    exported = [getattr(embedding_kit, name) for name in embedding_kit.__all__]
    settings = [item for item in exported if ".settings." in item.__module__]
    constructs = [item for item in exported if item not in settings]
    constructs.sort(key=lambda item: [*order, item.__name__].index(item.__name__))
    shown = [f"::: {item.__module__}.{item.__qualname__}\n" for item in (*constructs, *settings)]
    return "\n".join([*shown[: len(constructs)], _SETTINGS_HEAD, *shown[len(constructs) :]])


def llms_text() -> str:
    """Return the pages with a sentence each, for agents: https://llmstxt.org."""
    pages = (ROOT / "docs/README.md").read_text(encoding="utf-8").partition("\n\n")[2]
    lists = pages.partition("[Contributing]")[0].rstrip()
    about = "An AWS CDK kit for text embeddings, rerankers and classifiers on AWS Lambda."
    first_command = (
        "Serve a model without an account: `scripts/serve`. Deploy it: `scripts/deploy dev`."
    )
    return f"# Embedding Kit\n\n> {about}\n\n{first_command}\n\n{lists}\n"


_SKILL_HEAD = """---
name: embedding-kit
description: Choose, price and deploy a text-embedding or search endpoint on AWS Lambda in the
  user's own account with Embedding Kit, and change the model of an index. Use it for embeddings,
  semantic search or reranking on AWS, and in a clone of Embedding Kit.
license: Apache-2.0
compatibility: A clone of the repository, Python 3.11 to 3.14 and bash; to deploy, AWS
  credentials, the AWS CLI and npm.
---

# Embedding Kit

Work in the root of the clone. A deploy costs money and changes IAM: show the user what
`scripts/cost` prints, and ask first. After an error, look at
[these](../../operations.md#troubleshooting). All [pages](../../README.md)
and [settings](../../settings.md).

Documents of many formats are searched in a folder by `scripts/serve --documents FOLDER`, and in
S3 by [`[ingest]`](../../search.md#documents); [BM25](../../search.md#words) also finds words,
without a model.
"""
#: The pages of each section, in order.
_SKILL_SECTIONS = {
    "Size": ("models.md", "cost.md"),
    "Deploy": ("operations.md", "search.md"),
    "Migrate": ("migrate.md",),
}
_PASSAGE = re.compile(r"^<!-- skill -->\n(.*?)^<!-- end of skill -->\n", re.DOTALL | re.MULTILINE)


def skill_page() -> str:
    """Return the skill for agents in Markdown, collected from the pages' marked passages.

    The form is that of https://agentskills.io/specification: a folder with the skill's name, and
    in it `SKILL.md` with a description that agents read first.
    """
    sections = [_SKILL_HEAD]
    for title, pages in _SKILL_SECTIONS.items():
        sections += [f"## {title}\n", *(_passages(page) for page in pages)]
    return "\n".join(sections)


def _passages(page: str) -> str:
    passages = _PASSAGE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    if not passages:
        raise ValueError(f"a page of the skill must have a passage for it; found none in {page}")
    text = re.sub(r"<!-- (not run: .*?|needs AWS) -->\n", "", "\n".join(passages))
    text = re.sub(r"\]\((#[^)]+)\)", rf"]({page}\1)", text)
    text = re.sub(r"^## ", "### ", text, flags=re.MULTILINE)
    return re.sub(r"\]\((?!https?:)", "](../../", text)


# The generated blocks of each page that has some.
_BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"cost-first-line": tables.first_line, "costs": tables.bills_list},
    "docs/api.md": {"paths": paths_table},
    "docs/client.md": {"errors": errors_tree},
    "docs/constructs.md": {"classes": classes},
    "docs/cost.md": {
        "cost-example": tables.example_table,
        "cost-lengths": tables.length_table,
        "cost-metrics": tables.metrics_line,
        "standing-cost": tables.standing_table,
        "cost-cold-starts": tables.cold_start_table,
    },
    "docs/models.md": {"models": tables.models_table, "prompts": tables.prompts_table},
    "docs/performance.md": {
        "gemma": partial(speed_tables.model_table, speed_tables.GEMMA),
        "minilm": partial(speed_tables.model_table, speed_tables.MINILM),
        "on-aws": tables.measured_table,
        "peers-that-win": speed_tables.peers_that_win,
        "counted": speed_tables.counted_table,
    },
    "docs/server.md": {
        "server-cost": tables.server_table,
        "server-measured": speed_tables.server_table,
    },
}
# The content of each generated file. A test compares them.
GENERATED: dict[str, Callable[[], str]] = {
    "client/embedding_client/models.json": client_models,
    "constructs/embedding_kit/settings/catalog.json": catalog_facts,
    **{path: partial(_page, path) for path in _BLOCKS},
    "docs/pictures/benchmark.svg": charts.draw_benchmark,
    "docs/llms.txt": llms_text,
    "docs/pictures/demo.svg": demo.draw,
    "docs/pictures/fidelity.svg": charts.draw_fidelity,
    "docs/pictures/flow.svg": diagrams.draw_flow,
    "docs/pictures/models.svg": charts.draw_models,
    "docs/pictures/release.svg": diagrams.draw_release,
    "docs/pictures/start.svg": charts.draw_start,
    "docs/pictures/ways.svg": diagrams.draw_ways,
    "docs/reference/commands.md": commands_page,
    "docs/server.svg": charts.draw_server,
    "docs/skills/embedding-kit/SKILL.md": skill_page,
    "docs/settings.md": lambda: settings_page(export_schema(EnvironmentSettings)),
    "environments/environment.schema.json": environment_schema,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or GENERATED:
        (ROOT / name).write_text(GENERATED[name](), encoding="utf-8")
