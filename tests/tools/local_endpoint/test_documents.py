"""A folder of documents, served with an index of its chunks."""

import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from embedder.application import build_router
from embedder.core.engine import Engine
from embedder.core.settings import EmbedderSettings
from embedder.http.http_types import Request
from tests.docs.pages import BLOCK, ROOT, SERVED
from tests.fixtures.models_together import write_together
from tools.local_endpoint import __main__ as command
from tools.local_endpoint import documents
from tools.local_endpoint.models import ModelError, documents_of

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8").partition("## 4. ")[2]
README = (ROOT / "README.md").read_text("utf-8").partition("`scripts/serve` runs")[2]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a folder of three small models."""
    return write_together(tmp_path_factory.mktemp("models"), ["hello world"])[0]


@pytest.fixture
def folder(tmp_path):
    """Return a folder of documents, of which two cannot be read."""
    place = tmp_path / "documents"
    (place / "acme").mkdir(parents=True)
    (place / "a.md").write_text("---\nyear: 2024\n---\n# Dates\n\nparse a date")
    (place / "acme" / "b.jsonl").write_text('{"text": "hello world", "year": 2020}')
    (place / ".hidden.md").write_text("hidden")
    (place / "c.txt").write_bytes(b"a\xff")
    (place / "d.png").write_bytes(b"x")
    return place


def test_the_documents_are_searched_with_sources_and_filters(models, folder, tmp_path, capfd):
    """In every mode, and reranked; what cannot be read is named."""
    index = documents_of(str(folder), models, metadata=["year"], cache=tmp_path)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "refused: c.txt: byte 1 is not utf-8" in printed.err
    assert "refused: d.png: its name must end with .txt" in printed.err
    assert "100%" in printed.err
    summary = printed.err[printed.err.index("2 documents") :].splitlines()
    assert summary[:2] == ["2 documents, 2 chunks of 2 to 3 tokens", "refused:"]
    assert [line[:13] for line in summary[2:]] == ["     1 × byte", "     1 × its "]
    router = build_router(EmbedderSettings(artifact=models, index=index))

    def search(**body):
        answer = router.handle(Request("POST", "/search", body=json.dumps(body).encode()))
        return json.loads(answer.body)["results"]

    first, second = search(query="parse a date")
    assert first["scores"].keys() == {"dense", "sparse", "fused", "rerank"}
    found = {each["source"]: each for each in (first, second)}
    assert found["a.md"]["heading"] == "Dates"
    assert found["a.md"]["metadata"]["year"] == 2024
    assert found["acme/b.jsonl"]["metadata"]["tenant"] == "acme"
    for mode in ("dense", "sparse", "hybrid"):
        where = {"$and": [{"tenant": {"$exists": False}}, {"year": {"$gte": 2024}}]}
        results = search(query="parse a date", mode=mode, filter=where)
        assert [each["source"] for each in results] == ["a.md"]


def test_documents_are_searched_by_words_without_a_sparse_encoder(models, folder, tmp_path):
    """An index of an embedding model alone has BM25."""
    index = documents_of(str(folder), models / "embed", cache=tmp_path)
    router = build_router(EmbedderSettings(artifact=models / "embed", index=index))
    for mode, found in {"sparse": ["a.md"], "hybrid": ["a.md", "acme/b.jsonl"]}.items():
        body = json.dumps({"query": "dates", "mode": mode}).encode()
        answer = json.loads(router.handle(Request("POST", "/search", body=body)).body)
        assert [result["source"] for result in answer["results"]] == found


def test_bm25_needs_texts(capsys):
    """The switch is refused without an index, and named."""
    assert command.main(["--sparse", "bm25", "--port", "0"]) == 1
    assert "--sparse bm25 weighs the words of texts; found without" in capsys.readouterr().err


def test_an_answer_is_where_the_heading_says(minilm_artifact, tmp_path, capsys):
    """Of two sections, that whose heading has the question's words; a title is a heading too.

    A language that the model does not know is named.
    """
    folder, index = tmp_path / "documents", tmp_path / "index"
    folder.mkdir()
    (folder / "install.md").write_text(
        "# Installation\n\n## Windows\n\nDownload the installer and run it. It needs about two "
        "minutes.\n\n## Linux\n\nUse the package of your distribution, or unpack the archive.\n"
    )
    (folder / "plans.md").write_text(
        "# Plans\n\n## Starter\n\nIt costs 10 euros a month, for up to three users.\n\n"
        "## Enterprise\n\nAsk us for an offer. There is no limit of users.\n"
    )
    for name in ("Berlin", "Lisbon"):
        (folder / f"{name.lower()}.md").write_text(
            f"---\ntitle: Office in {name}\n---\nThe door opens at eight. Bring your badge.\n"
        )
    (folder / "chinese.txt").write_text("婚礼的菜单和退货的发票。" * 9)
    artifact = str(minilm_artifact.folder)
    words = [str(folder), "--artifact", artifact, "--output", str(index)]
    assert documents.main(words) == 0
    assert re.search(
        r"chinese\.txt: \d\d% of its tokens are unknown to the model", capsys.readouterr().out
    )
    router = build_router(EmbedderSettings(artifact=artifact, index=str(index)))
    answers = {
        "how do I install it on Linux": "Installation > Linux",
        "how do I install it on Windows": "Installation > Windows",
        "price of the Enterprise plan": "Plans > Enterprise",
        "how many users has the Starter plan": "Plans > Starter",
        "when does the office in Lisbon open": "Office in Lisbon",
    }
    for query, heading in answers.items():
        body = json.dumps({"query": query}).encode()
        answer = json.loads(router.handle(Request("POST", "/search", body=body)).body)
        assert answer["results"][0]["heading"] == heading
        assert heading.split()[-1] not in answer["results"][0]["text"]


def test_a_start_embeds_what_has_changed(models, folder, tmp_path, monkeypatch, capsys):
    """A renamed or an equal document is not embedded again; the index is the same as a new one."""
    embedded = []
    real = Engine.embed

    def counted(self, texts, **given):
        embedded.extend(texts)
        return real(self, texts, **given)

    monkeypatch.setattr(Engine, "embed", counted)

    def build(name):
        embedded.clear()
        output = tmp_path / name
        words = [str(folder), "--artifact", str(models), "--output", str(output)]
        assert documents.main(words) == 0
        return {path.name: path.read_bytes() for path in output.iterdir()}

    build("index")
    # Each model embeds each text.
    headed = "Dates\n\nparse a date"
    assert sorted(embedded) == [headed, headed, "hello world", "hello world"]
    (folder / "a.md").rename(folder / "renamed.md")
    (folder / "acme" / "b.jsonl").write_text('{"text": "a time"}\n{"text": "hello world"}')
    changed = build("index")
    assert embedded == ["a time", "a time"]
    assert changed == build("another")
    (folder / "acme" / "b.jsonl").unlink()
    build("index")
    assert embedded == []
    (folder / "acme" / "b.jsonl").write_text('{"text": "a time"}')
    build("index")
    assert embedded == ["a time", "a time"]


def test_errors_are_one_line(models, tmp_path, capfd):
    """A folder that is none, or without documents; a file in the place of the cache."""
    output = tmp_path / "index"
    words = ["--artifact", str(models), "--output", str(output)]
    assert documents.main([str(tmp_path / "gone"), *words]) == 2
    assert "gone is not a folder" in capfd.readouterr().err
    (tmp_path / "empty").mkdir()
    assert documents.main([str(tmp_path / "empty"), *words]) == 2
    assert "empty has no document that can be read" in capfd.readouterr().err
    (tmp_path / "index.vectors").write_text("no database, which this is not" * 100)
    (tmp_path / "empty" / "a.txt").write_text("hello")
    assert documents.main([str(tmp_path / "empty"), *words]) == 2
    assert re.fullmatch(r"error: .*index\.vectors cannot be read: .*\n", capfd.readouterr().err)
    with pytest.raises(ModelError, match="failed"):
        documents_of(str(tmp_path / "gone"), models, cache=tmp_path)


def test_a_file_without_permission_is_named(models, folder, tmp_path, monkeypatch, capsys):
    """The others are searched."""
    opened = Path.open

    def denied(path, *mode, **options):
        if path.name == "a.md":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *mode, **options)

    monkeypatch.setattr(Path, "open", denied)
    words = [str(folder), "--artifact", str(models), "--output", str(tmp_path / "index")]
    assert documents.main(words) == 0
    printed = capsys.readouterr().out
    assert re.search(r"refused: a\.md: .*a\.md cannot be read: .*Permission denied", printed)
    assert "1 document, 1 chunk" in printed


def test_a_file_that_is_deleted_meanwhile_is_no_document(
    models, folder, tmp_path, monkeypatch, capsys
):
    """It was listed before."""

    def deleting(key):
        (folder / "acme" / "b.jsonl").unlink(missing_ok=True)
        return key.startswith(".")

    monkeypatch.setattr(documents, "is_hidden", deleting)
    words = [str(folder), "--artifact", str(models), "--output", str(tmp_path / "index")]
    assert documents.main(words) == 0
    assert "1 document, 1 chunk of 3 tokens\n" in capsys.readouterr().out


@pytest.mark.parametrize("cache", [b"", b"no database, which this is not" * 100])
def test_the_vectors_file_is_closed(models, folder, tmp_path, monkeypatch, cache):
    """After a build, and if the file cannot be read."""
    connections = []
    connect = sqlite3.connect

    def remembered(path):
        connections.append(connect(path))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", remembered)
    (tmp_path / "index.vectors").write_bytes(cache)
    words = [str(folder), "--artifact", str(models), "--output", str(tmp_path / "index")]
    assert documents.main(words) == (2 if cache else 0)
    (connection,) = connections
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_metadata_without_documents_is_refused(minilm_artifact, capsys):
    """Other indexes have no keys to choose."""
    model = str(minilm_artifact.folder)
    assert command.main(["--model", model, "--metadata", "year", "--port", "0"]) == 1
    assert "--metadata names keys of documents; found without" in capsys.readouterr().err


def scored(output: str) -> tuple[list[float], list[str]]:
    """Return the scores and the texts of the lines of `embed search`."""
    lines = [line.split(maxsplit=1) for line in output.splitlines()]
    return [float(score) for score, _ in lines], [text for _, text in lines]


@pytest.mark.parametrize("page", [TUTORIAL, README], ids=["tutorial", "README"])
def test_a_page_answers_from_a_folder(page, minilm_artifact, tmp_path):
    """Its commands print what it shows: the kettle's care and the journey, each with its source."""
    serve, ask = [one for one in BLOCK.finditer(page) if one["language"] == "bash"][:2]
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    words = serve["code"].split()[1:]
    model = ["--model", str(minilm_artifact.folder), "--port", "0"]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "EMBEDDING_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tools.local_endpoint", *words, *model],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            output = ""
            while not (found := re.search(r"embed .* --url (\S+)\n", output)):
                line = program.stdout.readline()
                assert line, program.stderr.read()
                output += line
            asked = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", ask["code"].replace(SERVED, found[1])],
                env=environment | {"EMBEDDING_URL": found[1]},
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            program.send_signal(signal.SIGTERM)
            program.communicate()
    (scores, texts), (shown_scores, shown_texts) = map(scored, (asked.stdout, ask["output"]))
    assert texts == shown_texts
    # Those of a page are of one processor.
    assert scores == pytest.approx(shown_scores, abs=0.02)
