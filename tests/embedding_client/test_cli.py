"""The command `embed`, as it is typed."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from embedding_client.cli import main
from embedding_client.vector_log import VectorLog
from local_function_url.endpoint import endpoint
from model_compiler.index_builder import build_index

EMBED = [sys.executable, "-m", "embedding_client.cli"]


@pytest.fixture
def embed(running, monkeypatch, capsys):
    """Runs the command in this process; returns its code, output and errors."""
    monkeypatch.setenv("EMBED_URL", running.url)

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_texts_give_a_line_each(embed, client, running):
    """JSON with text, vector and vector space; float32 loses nothing in it."""
    code, out, _ = embed("hello world", "the kettle")
    rows = lines(out)
    assert code == 0
    assert [row["text"] for row in rows] == ["hello world", "the kettle"]
    vectors = np.array([row["embedding"] for row in rows], np.float32)
    assert np.allclose(vectors, client.embed(["hello world", "the kettle"]), atol=1e-5)
    assert rows[0]["vector_space"].endswith(f"/{running.dimension}")


def test_a_pipe_gives_a_line_for_a_line(running):
    """Standard input is embedded line by line; blank lines are passed over."""
    environment = {**os.environ, "EMBED_URL": running.url}
    ran = subprocess.run(
        [*EMBED, "--dtype", "ubinary"],
        input="one\n\nGrüße\n",
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    rows = lines(ran.stdout)
    assert [row["text"] for row in rows] == ["one", "Grüße"]
    assert all(0 <= number <= 255 for number in rows[0]["embedding"])


def test_info_tells_what_is_served(embed, running):
    """With the URL as argument, or the usual one."""
    code, out, _ = embed("info", running.url)
    assert code == 0
    assert json.loads(out)["dimensions"] == [running.dimension]


def test_similar_says_when_there_is_no_index(embed):
    """An error is one line on standard error, and the code is 1."""
    code, out, err = embed("similar", "parse a date")
    assert (code, out) == (1, "")
    assert err.startswith("error: This image carries no search index")


@pytest.fixture(scope="module")
def searched(minilm_artifact, tmp_path_factory):
    """An endpoint that carries an index of three facts."""
    index = tmp_path_factory.mktemp("index") / "facts"
    facts = ["Water boils at 100 degrees.", "A violin\nhas four strings.", "Rain is wet."]
    build_index(facts, minilm_artifact.folder, index)
    url, _ = endpoint(minilm_artifact.folder, index=index)
    with url:
        yield url.url


def test_similar_tells_the_best_matches(embed, searched):
    """Score and text on a line each, best first; or JSON."""
    code, out, _ = embed("similar", "Which instrument?", "-n", "2", "--url", searched)
    first, second = out.splitlines()
    assert code == 0
    assert first[6:] == "  A violin has four strings."
    assert float(first[:6]) > float(second[:6])
    code, out, _ = embed("similar", "Which instrument?", "--url", searched, "--json")
    rows = lines(out)
    assert [rows[0]["index"], len(rows)] == [1, 3]


def test_no_endpoint_is_an_error(embed, monkeypatch):
    """The message says how to name one."""
    monkeypatch.delenv("EMBED_URL")
    assert embed("x") == (1, "", "error: No endpoint: give --url, or set EMBED_URL.\n")


@pytest.mark.parametrize(
    "arguments", [["--output", "a.npy"], ["--file", "a.txt"], ["x", "--file", "a", "--output", "b"]]
)
def test_wrong_usage_is_told(embed, arguments):
    """With the code that argparse uses."""
    with pytest.raises(SystemExit) as caught:
        embed(*arguments)
    assert caught.value.code == 2


COUNT = 50


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "body"])
        writer.writerows([number, f"note {number}, with a comma"] for number in range(COUNT))
    return path


@pytest.fixture
def expected(client):
    return client.embed([f"note {number}, with a comma" for number in range(COUNT)])


def test_a_file_becomes_jsonl(embed, notes, expected):
    """Each row keeps its fields."""
    output = notes.with_suffix(".jsonl")
    code, _, err = embed("--file", notes, "--column", "body", "--output", output)
    rows = lines(output.read_text(encoding="utf-8"))
    assert (code, err) == (0, f"{output}: {COUNT} rows\n")
    assert [row["id"] for row in rows] == [str(number) for number in range(COUNT)]
    assert np.allclose([row["embedding"] for row in rows], expected, atol=1e-5)


def test_a_file_becomes_parquet(embed, notes, expected):
    """The vectors are a column of fixed-size lists, the vector space is in the metadata."""
    output = notes.with_suffix(".parquet")
    assert embed("--file", notes, "--column", "body", "--output", output)[0] == 0
    table = pyarrow.parquet.read_table(output)
    assert table.column_names == ["id", "body", "embedding"]
    assert np.allclose(np.stack(table["embedding"].to_numpy()), expected, atol=1e-5)
    assert b"/int8/" in table.schema.metadata[b"vector_space"]


def test_a_file_becomes_an_array(embed, notes, expected):
    """The array alone; a small file beside it says what it is."""
    output = notes.with_suffix(".npy")
    assert embed("--file", notes, "--column", "body", "--output", output)[0] == 0
    assert np.allclose(np.load(output), expected, atol=1e-5)
    assert json.loads(output.with_suffix(".json").read_text())["count"] == COUNT


def test_an_output_is_not_replaced_by_accident(embed, notes):
    """It takes a word more."""
    output = notes.with_suffix(".npy")
    given = ("--file", notes, "--column", "body", "--output", output)
    assert embed(*given)[0] == 0
    assert "is there already. Say --overwrite" in embed(*given)[2]
    assert embed(*given, "--overwrite")[0] == 0


@pytest.mark.parametrize("name", ["out.txt", "no/folder/out.npy"])
def test_an_output_that_cannot_be_is_told_first(embed, notes, name):
    """Before anything is sent."""
    code, _, err = embed("--file", notes, "--column", "body", "--output", notes.parent / name)
    assert code == 1
    assert "must end in" in err or "is no folder" in err


def part_of(output):
    return output.with_name(output.name + ".part")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_was_ended_goes_on(embed, running, tmp_path, client, ending):
    """Ctrl-C, a polite end, a kill: the second run sends only the rest, no row lost or doubled."""
    texts = [f"row {number} of many " + "word " * 60 for number in range(3000)]
    source, output = tmp_path / "many.txt", tmp_path / "many.npy"
    source.write_text("\n".join(texts))
    command = [*EMBED, "--url", running.url, "--concurrency", "1"]
    command += ["--file", str(source), "--output", str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        while not (part_of(output).exists() and part_of(output).stat().st_size > 100_000):
            assert run.poll() is None, run.stderr.read()
            time.sleep(0.01)
        run.send_signal(ending)
        told = run.communicate()[1]
    assert ending == signal.SIGKILL or "the same command goes on from here" in told
    assert not output.exists()
    before = part_of(output).stat().st_size
    assert 100_000 < before < 3000 * running.dimension * 4
    # The rest is cut short, so that this test need not embed all of it.
    done = (before - 1) // (running.dimension * 4)
    shown = texts[: done + 100]
    state = source.stat()
    source.write_text("\n".join(shown))
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    _rename_size(part_of(output), state.st_size, source.stat().st_size)
    assert embed("--file", source, "--output", output)[0] == 0
    assert not part_of(output).exists()
    vectors = np.load(output)
    assert len(vectors) == len(shown)
    sample = [0, done - 1, done, len(shown) - 1]
    assert np.allclose(vectors[sample], client.embed([shown[i] for i in sample]), atol=1e-4)


def _rename_size(log: Path, before: int, after: int) -> None:
    """Tells the log that its file has another size."""
    header, _, rows = log.read_bytes().partition(b"\n")
    told = header.replace(f'"bytes": {before}'.encode(), f'"bytes": {after}'.encode())
    assert told != header
    log.write_bytes(told + b"\n" + rows)


def test_a_row_that_is_wrong_loses_nothing(embed, tmp_path):
    """What came before it is kept; put right, the file is another, and that is said."""
    source, output = tmp_path / "a.jsonl", tmp_path / "a.npy"
    rows = [json.dumps({"text": f"row {number}"}) for number in range(600)]
    source.write_text("\n".join([*rows, '{"text": ""}']))
    code, _, err = embed("--file", source, "--output", output)
    assert (code, "row 601 has no text in 'text': ''" in err) == (1, True)
    source.write_text("\n".join(rows))
    assert (
        "begun for another file, state of the file"
        in embed("--file", source, "--output", output)[2]
    )
    part_of(output).unlink()
    assert embed("--file", source, "--output", output)[0] == 0


def test_other_vectors_are_not_added(embed, running, tmp_path):
    """An endpoint whose model has changed since the first run is refused."""
    source, output = tmp_path / "a.txt", tmp_path / "a.npy"
    source.write_text("one\ntwo\n")
    from dataclasses import asdict

    from embedding_client.protocol import EmbedOptions
    from embedding_client.sources import Source

    job = {"source": Source(source).identity(), "options": asdict(EmbedOptions())}
    with VectorLog(part_of(output), job=job) as log:
        vectors = np.zeros((1, running.dimension), np.float32)
        log.append(vectors, vector_space=f"older@1/int8/abc/{running.dimension}")
    code, _, err = embed("--file", source, "--output", output)
    assert (code, "vectors of the two cannot be compared" in err) == (1, True)
