"""The page of the API in front: its examples are valid, its table of codes is complete."""

import ast
import re
import tomllib
from functools import cache

import pytest

from embedding_kit import ingestion, jobs
from embedding_kit.rest_api import GATEWAY_RESPONSES
from embedding_kit.settings.package import EMBEDDER
from stacks.environment import EnvironmentSettings

from .pages import BLOCK, ROOT

PAGE, _, NETWORKS = (
    (ROOT / "docs" / "front.md").read_text("utf-8").partition("\n## Private networks\n")
)
MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}


def tables(page):
    """Return each example of settings; the first is a whole, and most others are parts of it."""
    found = [
        tomllib.loads(one["code"]) for one in BLOCK.finditer(page) if one["language"] == "toml"
    ]
    whole = found[0]
    return [
        one if "kind" in one["front"] else {**whole, "front": whole["front"] | one["front"]}
        for one in found
    ]


@pytest.mark.parametrize("table", tables(PAGE), ids=lambda table: ",".join(table["front"]))
def test_the_settings_on_the_page_are_valid(table):
    """Each example is accepted, alone or added to the first."""
    made = EnvironmentSettings.model_validate({"name": "test", "model": MODEL, **table})
    assert made.front is not None


def test_the_codes_of_api_gateways_answers_are_on_the_page():
    """A code in the templates is in the table; the two defaults are for what has no name."""
    section = PAGE.partition("### Answers of API Gateway itself")[2].partition("\n### ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section))
    codes = {answer.code for answer in GATEWAY_RESPONSES.values()} - {"invalid_request"}
    assert codes <= named


#: The first words of a row, and the program that starts there; the check's is in release.py.
PROGRAMS = {
    "the endpoint's function": EMBEDDER,
    "batch jobs": jobs.BATCH_PROGRAM.handler,
    "loads of": jobs.LOAD_PROGRAM.handler,
    "documents": ingestion.PROGRAM.handler,
    "the watch": ingestion.WATCH_HANDLER,
    "the server's": "embedder.server.__main__",
    "the check of": "jobs.release_check.handler.handler",
}
#: The services of the table that a program calls; ECR, logs and secrets are ECS's.
SERVICES = {
    "S3 Vectors": "s3vectors",
    "S3": "s3",
    "SQS": "sqs",
    "CloudFormation": "cloudformation",
    "Lambda": "lambda",
}
SOURCES = ROOT / "lambda_image"


@cache
def module(name):
    """Return the tree of one of our modules; None of others."""
    path = SOURCES / name.replace(".", "/")
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return ast.parse(files[0].read_text("utf-8")) if files else None


def imported(tree):
    """Yield the names of what a module imports, at its start or later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def constants(tree):
    """Return the texts that a module names."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def called(tree):
    """Yield the services that a module makes clients of, by botocore, obstore or our signatures."""
    names = constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        if function.endswith("create_client"):
            yield ast.literal_eval(node.args[0])
        elif function == "S3Store.from_url":
            yield "s3"
        elif function == "sign":
            (given,) = (word.value for word in node.keywords if word.arg == "service")
            yield names[ast.unparse(given)]


def services(program):
    """Return the services that a program calls, in all of our modules that it imports."""
    found, left = set(), [program, program.rpartition(".")[0]]
    seen = set()
    while left:
        name = left.pop()
        tree = None if name in seen else module(name)
        seen.add(name)
        if tree:
            left += imported(tree)
            found |= set(called(tree))
    return found


def test_each_part_has_the_services_that_its_code_calls():
    """A row that lacks one lets a function wait for minutes, in a VPC without a way there."""
    rows = [row.strip("| ").split(" | ") for row in NETWORKS.splitlines() if row.startswith("| ")]
    named = {}
    for part, _, needs in rows[1:]:
        (program,) = (of for words, of in PROGRAMS.items() if part.startswith(words))
        words = re.findall("|".join(SERVICES), needs)
        named[program] = {SERVICES[word] for word in words}
    assert named == {program: services(program) for program in PROGRAMS.values()}


def test_each_client_of_our_code_is_found():
    """No module calls AWS in a way that the comparison above does not see."""
    found = {
        service
        for file in SOURCES.rglob("*.py")
        if (tree := ast.parse(file.read_text("utf-8")))
        for service in called(tree)
    }
    assert found == set(SERVICES.values())
    for file in SOURCES.rglob("*.py"):
        text = file.read_text("utf-8")
        assert not re.search(r"import boto3|URLLib3Session|AWSRequest|\.resource\(", text), file
