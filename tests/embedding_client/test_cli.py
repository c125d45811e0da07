"""The command `embed`."""

import csv
import gzip
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from embedding_client._outputs import Checkpoint
from embedding_client.cli import parsers
from model_compiler.index_builder import build_index
from tests.fixtures.waiting import PATIENCE
from tools.local_endpoint.endpoint import endpoint

A_FILE = ("--file", __file__, "--format", "text")
EMBED = [sys.executable, "-m", "embedding_client.cli"]


@pytest.fixture
def embed(running, monkeypatch, command):
    monkeypatch.setenv("EMBEDDING_URL", running.url)
    # On a busy machine, a run of ten seconds would print its progress among the errors.
    monkeypatch.setattr("embedding_client.progress._INTERVAL", math.inf)
    return command


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["", *parsers()[2]])
def test_help_fits_80_columns(command, name, monkeypatch):
    """No line of a help is wider than an ordinary terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, command(*name.split(), "--help")[1].splitlines())) <= 80


def test_each_text_prints_a_line(embed, client, running):
    """The line is JSON with the text, the exact float32 vector and the vector space."""
    code, out, _ = embed("hello world", "the kettle")
    rows = lines(out)
    assert code == 0
    assert [row["text"] for row in rows] == ["hello world", "the kettle"]
    vectors = np.array([row["embedding"] for row in rows], np.float32)
    assert np.allclose(vectors, client.embed(["hello world", "the kettle"]), atol=1e-5)
    assert rows[0]["vector_space"].endswith(f"/{running.dimensions}")


def test_a_terminal_gets_a_summary_and_json_on_request(embed, running, monkeypatch):
    """Dimensions, first numbers and space instead of hundreds of numbers."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _, out, _ = embed("hello world")
    text, numbers, space = out.splitlines()
    assert text == "hello world"
    assert numbers.startswith(f"  {running.dimensions} dimensions: ")
    assert space.startswith("  vector space: ")
    (row,) = lines(embed("--json", "hello world")[1])
    assert numbers.split()[2] == f"{row['embedding'][0]:.4g}"
    assert space.endswith(row["vector_space"])


def test_a_terminal_gets_a_summary_of_a_file(embed, running, monkeypatch, tmp_path):
    """The text is that of its column; a row without one has no vector."""
    file = tmp_path / "notes.csv"
    file.write_text("id,body\n1,hello world\n2,\n")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    arguments = ("--file", file, "--column", "body", "--on-error", "null")
    code, out, _ = embed(*arguments)
    text, numbers, _, blank, no_vector = out.splitlines()
    assert (code, text, blank, no_vector) == (3, "hello world", "", "  no vector")
    assert numbers.startswith(f"  {running.dimensions} dimensions: ")
    assert len(lines(embed(*arguments, "--json")[1])) == 2


@pytest.mark.parametrize("name", ["notes.csv", "-", "pipe"])
def test_the_name_of_a_file_is_no_text(embed, tmp_path, monkeypatch, name):
    """Its content would be meant; after --, and next to others, it is a text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.csv").write_text("text\na\n")
    (tmp_path / "notes").mkdir()
    os.mkfifo(tmp_path / "pipe")
    code, out, err = embed("--dtype", "int8", name)
    assert (code, out, f"use --file {name}" in err) == (2, "", True)
    others = (["--", name], [name, "b"], ["notes"], ["x y " * 1250, "--truncate", "right"])
    assert [embed(*arguments)[0] for arguments in others] == [0, 0, 0, 0]


@pytest.mark.parametrize("to", [[], ["--output", "out.jsonl"]])
@pytest.mark.parametrize(
    ("name", "content"), [("a.txt", ""), ("a.csv", "text\n"), ("a.json", "[]"), ("a.jsonl", "\n")]
)
def test_an_input_without_texts_is_an_error(*, embed, tmp_path, monkeypatch, name, content, to):
    """A pipeline that has lost its texts does not end as if all was well."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    code, out, err = embed("--file", name, *to)
    assert (code, out, err) == (1, "", f"error: {name} is empty: there is nothing to embed.\n")
    assert not (tmp_path / "out.jsonl").exists()
    (tmp_path / name).write_text({"a.csv": "text\nb\n", "a.json": '["b"]'}.get(name, '"b"\n'))
    assert embed("--file", name, *to)[0] == 0
    (tmp_path / "none.txt").touch()
    code, out, err = embed("rerank", "a query", "none.txt")
    assert (code, out, err) == (1, "", "error: none.txt is empty: there is nothing to rank.\n")


@pytest.mark.filterwarnings("default:More than half")
def test_words_that_the_model_does_not_know(embed):
    """Two texts of a script that the model lacks have one vector, and one warning says why."""
    code, out, err = embed("\u5a5a\u793c", "\u53d1\u7968", "hello", "\u83dc\u5355")
    first, second, third, _ = lines(out)
    assert first["embedding"] == second["embedding"] != third["embedding"]
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("warning: More than half of a text's tokens are unknown to the model")
    assert embed("hello")[2] == ""


def test_a_reader_knows_that_an_attempt_failed(embed, monkeypatch):
    """On a terminal one line says so at once; the retries take seconds."""
    monkeypatch.setattr("embedding_client._flows.random.uniform", lambda *_: 0.0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    for terminal, wanted in ((False, 1), (True, 2)):
        monkeypatch.setattr("sys.stderr.isatty", lambda shown=terminal: shown)
        code, _, err = embed("hello", "--url", url)
        assert (code, err.count("\n")) == (1, wanted)
    assert err.startswith("no answer yet: the first attempt failed")


@pytest.fixture
def piped(running, tmp_path):
    """Run the command in another process with standard input. Return the process."""

    def run(*arguments, given="", **options):
        return subprocess.run(
            [*EMBED, *map(str, arguments)],
            input=given if isinstance(given, bytes) else given.encode(),
            cwd=tmp_path,
            env={**os.environ, "EMBEDDING_URL": running.url},
            check=False,
            **{"capture_output": True, **options},
        )

    return run


def test_a_blank_line_of_a_pipe_is_an_error(piped):
    """The lines before it are printed. Then the run stops, or continues with --on-error."""
    given = "one\n\nGrüße\n"
    ran = piped(given=given)
    assert ran.returncode == 1
    assert [row["text"] for row in lines(ran.stdout)] == ["one"]
    assert ran.stderr.startswith(b"error: standard input: line 2 is blank. To continue without it")
    ran = piped("--on-error", "null", "--dtype", "ubinary", given=given)
    assert ran.returncode == 3
    first, blank, last = lines(ran.stdout)
    assert all(0 <= number <= 255 for number in first["embedding"])
    assert (blank["embedding"], last["text"]) == (None, "Grüße")
    report, count = ran.stderr.decode().splitlines()
    assert json.loads(report) == {"row": 2, "line": 2, "error": "is blank", "code": None}
    assert count == "1 row without a vector"


@pytest.mark.parametrize(
    ("to", "packed"),
    [(["--output", "out.jsonl"], True), ([], False)],
    ids=["gzip to a file", "standard output"],
)
def test_standard_input_may_have_any_format(piped, tmp_path, to, packed):
    """`--file -` with `--format` reads it; gzip is detected."""
    given = b'{"id": 1, "body": "one"}\n{"id": 2, "body": "two"}\n'
    more = ["--file", "-", "--format", "jsonl", "--column", "body", *to]
    ran = piped(*more, given=gzip.compress(given) if packed else given)
    assert ran.returncode == 0, ran.stderr
    rows = lines((tmp_path / "out.jsonl").read_text() if to else ran.stdout)
    assert [(row["id"], row["body"], len(row["embedding"])) for row in rows] == [
        (1, "one", 384),
        (2, "two", 384),
    ]


def test_a_run_from_a_pipe_can_be_resumed(piped, tmp_path):
    """The second run with the same input resumes the first one."""
    given = "one\ntwo\n" + "word " * 400 + "\nthree\n"
    arguments = ["--file", "-", "--output", "a.npy"]
    ran = piped(*arguments, given=given)
    assert (ran.returncode, ran.stderr[:40]) == (1, b"error: standard input: line 3 has 402 to")
    assert _negate(tmp_path / "a.npy.part") == 2
    assert piped(*arguments, "--on-error", "skip", given=given).returncode == 3
    vectors = np.load(tmp_path / "a.npy")
    assert piped(*arguments, "--overwrite", given="one\ntwo\nthree\n").returncode == 0
    assert np.allclose(vectors, np.load(tmp_path / "a.npy") * [[-1], [-1], [1]], atol=1e-4)


@pytest.mark.parametrize("to_file", [True, False], ids=["file", "standard output"])
def test_ctrl_c_does_not_wait_for_responses(tmp_path, to_file):
    """The command ends while a request has no response."""
    (tmp_path / "a.txt").write_text("one\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [*EMBED, "--url", url, "--file", "a.txt"]
        command += ["--output", "a.npy"] if to_file else []
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as run:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(10)
                run.send_signal(signal.SIGINT)
                # The client itself would wait for two minutes, six times.
                _, said = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
    assert said.startswith(b"\nstopped")


def test_a_named_pipe_is_read_like_standard_input(piped, tmp_path):
    """For example from `<(…)` in a shell."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("one\ntwo\n",))
    writer.start()
    ran = piped("--file", pipe, "--format", "text", "--output", "a.npy")
    writer.join()
    assert (ran.returncode, ran.stderr) == (0, b"a.npy: 2 rows\n")
    assert len(np.load(tmp_path / "a.npy")) == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["hello"], ["--help"], ["--version"], ["info", "--help"]], ids=" ".join
)
def test_a_full_standard_output_is_an_error(piped, monkeypatch, arguments, unbuffered):
    """It prints one line without a traceback, and the status is 1."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("wb") as full:
        ran = piped(*arguments, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert ran.returncode == 1
    assert ran.stderr == (b"error: standard output cannot be written: No space left on device.\n")


def test_a_closed_standard_output_prints_no_error(running):
    """`embed … | head` ends without a message."""
    command = [*EMBED, "--url", running.url, *(["hello"] * 300)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait(PATIENCE) == 1


@pytest.mark.parametrize(
    ("flag", "said"),
    [("--help", "exit status:"), ("--version", f"embed {version('embedding-client')}")],
)
def test_help_imports_no_library(flag, said):
    """`--help` and `--version` print and end."""
    program = (
        "import sys\n"
        "from embedding_client.cli import run\n"
        "try: run([sys.argv[1]])\n"
        "except SystemExit as ended: assert not ended.code\n"
        "print({'anyio', 'botocore', 'httpx2', 'numpy', 'tqdm', 'pyarrow'} & set(sys.modules))"
    )
    shown = subprocess.check_output([sys.executable, "-c", program, flag], text=True)
    assert said in shown
    assert shown.endswith("set()\n")


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        *((["--", word], [word]) for word in ("info", "search", "embed")),
        (["--dtype", "int8", "embed", "information"], ["embed", "information"]),
    ],
)
def test_words_of_the_command_line_can_be_embedded(embed, arguments, texts):
    """After `--`, the name of a subcommand is a text; texts may follow the options."""
    code, out, _ = embed(*arguments)
    assert (code, [row["text"] for row in lines(out)]) == (0, texts)


@pytest.mark.parametrize(("word", "meant"), [("serach", "search"), ("docter", "doctor")])
def test_a_mistyped_command_is_refused(embed, word, meant):
    """It would be embedded, and billed; after -- it is a text."""
    code, _, err = embed(word, "hello")
    assert (code, f'did you mean "{meant}"' in err) == (2, True)
    assert embed("--", word)[0] == 0


@pytest.mark.parametrize(
    ("line", "word"),
    [("embed doc", "doctor"), ("embed --dt", "--dtype"), ("embed batch re", "resume")],
)
def test_a_shell_completes_commands_and_options(tmp_path, line, word):
    """As bash asks for it, through argcomplete."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words")}
    place = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "IFS": "\n"}
    subprocess.run(EMBED, env={**os.environ, **asked, **place}, check=True)
    assert word in (tmp_path / "words").read_text()


def test_info_prints_the_description_of_the_endpoint(embed, running):
    """The URL may be an argument."""
    code, out, _ = embed("info", running.url)
    assert code == 0
    assert json.loads(out)["dimensions"] == [running.dimensions]


def test_a_search_without_an_index_is_an_error(embed):
    """It prints one line to standard error, and the status is 1."""
    code, out, err = embed("search", "parse a date")
    assert (code, out) == (1, "")
    assert err.startswith("error: This endpoint has no search index")


def test_search_prints_the_best_matches(embed, minilm_artifact, tmp_path):
    """Each line has a score and a text, best first, or JSON; an index of S3 Vectors has more."""
    facts = ["Water boils at 100 degrees.", "A violin\nhas four strings.", "Rain is wet."]
    build_index(facts, minilm_artifact.folder, tmp_path / "facts")
    searched, _ = endpoint(minilm_artifact.folder, index=tmp_path / "facts")
    with searched:
        search = ("search", "Which instrument?", "--url", searched.url)
        code, out, _ = embed(*search, "--top", "2")
        first, second = out.splitlines()
        assert (code, first[6:]) == (0, "  A violin has four strings.")
        assert float(first[:6]) > float(second[:6])
        rows = lines(embed(*search, "--json")[1])
        assert [rows[0]["index"], len(rows)] == [1, 3]
        code, _, err = embed(*search, "--top", "5000")
    assert code == 1
    assert err.startswith("error: --top must be a whole number from 1 to 1000")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["x", "--concurrency", "0"], "found: 0; allowed: a whole number from 1"),
        (["x", "--dimensions", "-1"], "found: -1; allowed: a whole number from 1"),
        (["search", "x", "--top", "0"], "found: 0; allowed: a whole number from 1 to 10,000"),
        (["batch", "start", "a", "b", "--local", "0"], "found: 0; allowed: a whole number from 1"),
        (["index", "list", "-n", "1.5"], "found: 1.5; allowed: a whole number from 1"),
        (["x", "--prompt", "a", "--input-type", "query"], "prompt or input_type, not both"),
        ([*A_FILE, "--output", "a.csv"], "must end in .jsonl, .parquet, .npy"),
        ([*A_FILE, "--output", "none/a.npy"], "a folder that exists; found none"),
        (["x", "--url", "nowhere"], "found 'nowhere'"),
        (["x", "--url", ""], "No endpoint: give --url or --function, or set EMBEDDING_URL."),
        (["x", "--api-key-env", "NO_KEY"], "--api-key-env names NO_KEY, which is not set."),
        (["x", "--output", "a.npy"], "give texts, or --file with --output and --format, not both"),
        (["x", "--file", "a"], "give texts, or --file with --output and --format, not both"),
        (["x", "--on-error", "perhaps"], "invalid choice: 'perhaps'"),
    ],
)
def test_values_that_are_not_allowed_exit_with_status_2(embed, arguments, found):
    """The parser finds some, and the code that knows the allowed values finds others."""
    code, _, err = embed(*arguments)
    assert (code, found in err) == (2, True)


@pytest.mark.parametrize(
    ("option", "value"), [("--dimensions", "100"), ("--prompt", "none"), ("--input-type", "none")]
)
def test_an_error_of_the_endpoint_names_the_option(embed, option, value):
    """And not the field of the request, which the user does not see."""
    code, _, err = embed("x", option, value)
    assert code == 1
    assert err.startswith(f"error: {option} must be ")


COUNT = 50


def test_a_file_becomes_jsonl_parquet_or_an_array(embed, client, tmp_path):
    """The rows keep their fields; a schema or a second file has the vector space."""
    source = tmp_path / "notes.csv"
    texts = [f"note {number}, with a comma" for number in range(COUNT)]
    with source.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "body"), *enumerate(texts)])
    expected = client.embed(texts)

    def written(suffix):
        output = source.with_suffix(suffix)
        code, _, err = embed("--file", source, "--column", "body", "--output", output)
        assert (code, err) == (0, f"{output}: {COUNT} rows\n")
        return output

    rows = lines(written(".jsonl").read_text(encoding="utf-8"))
    assert [row["id"] for row in rows] == [str(number) for number in range(COUNT)]
    assert np.allclose([row["embedding"] for row in rows], expected, atol=1e-5)
    table = pyarrow.parquet.read_table(written(".parquet"))
    assert table.column_names == ["id", "body", "embedding"]
    assert np.allclose(np.stack(table["embedding"].to_numpy()), expected, atol=1e-5)
    assert b"/int8/" in table.schema.metadata[b"vector_space"]
    assert np.allclose(np.load(written(".npy")), expected, atol=1e-5)
    about = json.loads((tmp_path / "notes.npy.json").read_text())
    assert (about["count"], about["without_vector"]) == (COUNT, 0)
    assert about["vector_space"].endswith("/384")


def part_of(output):
    return output.with_name(output.name + ".part")


@pytest.mark.parametrize(
    "ending", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_an_interrupted_run_can_be_resumed(embed, running, tmp_path, client, ending):
    """After Ctrl-C, SIGTERM or SIGKILL, the same command continues and skips the same rows."""
    texts = [f"row {number} of many" for number in range(1500)]
    texts[3], texts[1400], texts[1401] = "", "", "word " * 400
    texts[40] = "long " * 400
    source, output = tmp_path / "many.txt", tmp_path / "many.npy"
    source.write_text("\n".join(texts))
    arguments = ["--concurrency", "1", "--on-error", "skip"]
    arguments += ["--file", str(source), "--output", str(output)]
    command = [*EMBED, "--url", running.url, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        # The first record, of 256 vectors, is complete.
        while not (part_of(output).exists() and part_of(output).stat().st_size > 400_000):
            assert run.poll() is None, run.stderr.read()
            time.sleep(0.01)
        run.send_signal(ending)
        message = run.communicate()[1]
    assert run.returncode == (-9 if ending == signal.SIGKILL else 130)
    assert ending == signal.SIGKILL or "the same command continues from here" in message
    assert not output.exists()
    done = _negate(part_of(output))
    assert 50 < done < 1500
    os.utime(source, (1, 1))  # a copy of the file has another time
    code, _, err = embed(*arguments)
    assert (code, err) == (
        3,
        f"{output}: 1,496 rows\n4 rows without a vector: {output}.errors.jsonl\n",
    )
    report = lines((tmp_path / "many.npy.errors.jsonl").read_text())
    assert [(row["row"], row["code"]) for row in report] == [
        (4, None),
        (41, "input_too_long"),
        (1401, None),
        (1402, "input_too_long"),
    ]
    assert report[1]["error"].startswith("has 402 tokens, special tokens and prompt included")
    assert report[1]["error"].endswith("; --truncate right embeds only its beginning")
    assert not part_of(output).exists()
    vectors = np.load(output)
    kept = [number for number in range(1500) if number not in {3, 40, 1400, 1401}]
    assert len(vectors) == len(kept)
    sample = [0, 3, 38, 39, done - 10, -200, -1]
    expected = client.embed([texts[kept[at]] for at in sample])
    signs = [[-1 if kept[at] < done else 1] for at in sample]
    assert np.allclose(vectors[sample], expected * signs, atol=1e-4)


def _negate(path: Path) -> int:
    """Negate the vectors of a checkpoint, to recognize them in the output. Return its rows."""
    with Checkpoint(path) as old:
        job, rejected, rows = old.job, old.rejected, old.rows
        vectors, space = np.concatenate(list(old.read())), old.vector_space
    path.unlink()
    with Checkpoint(path) as new:
        new.job = job
        new.append(-vectors, vector_space=space, rejected=rejected)
    return rows


def test_the_error_for_a_refused_row_has_its_position(embed, tmp_path, running):
    """It has the file, the row and the flags. Then the run can be resumed in each way."""
    source, output = tmp_path / "a.jsonl", tmp_path / "a.jsonl.npy"
    texts = [f"row {number}" for number in range(300)]
    texts[270] = "word " * 400
    source.write_text("\n\n".join(json.dumps({"text": text}) for text in texts))
    given = ("--file", source, "--output", output)
    code, _, err = embed(*given)
    assert code == 1
    assert err == (
        f"error: {source}: row 271 (line 541) has 402 tokens, special tokens and prompt included; "
        "the model allows 256; --truncate right embeds only its beginning. To continue without it, "
        "use --on-error skip or --on-error null.\n"
    )
    with Checkpoint(part_of(output)) as checkpoint:
        assert checkpoint.rows == 270
    saved = part_of(output).read_bytes()
    assert embed(*given, "--truncate", "right")[0] == 0
    assert len(np.load(output)) == 300
    part_of(output).write_bytes(saved)
    assert embed(*given, "--on-error", "null", "--overwrite")[0] == 3
    vectors = np.load(output)
    assert np.isnan(vectors[270]).all()
    assert np.isfinite(np.delete(vectors, 270, axis=0)).all()
    assert len(vectors) == 300


def test_null_preserves_the_position_of_rows(embed, tmp_path):
    """A blank line of a text file is a row with null, also where all rows decide on the columns."""
    source, output = tmp_path / "a.txt", tmp_path / "out.parquet"
    source.write_text("one\n\nthree\n\n")
    assert "a.txt: line 2 is blank" in embed("--file", source, "--output", output)[2]
    assert embed("--file", source, "--output", output, "--on-error", "null")[0] == 3
    rows = pyarrow.parquet.read_table(output).to_pylist()
    assert [row["text"] for row in rows] == ["one", "", "three"]
    assert [row["embedding"] is None for row in rows] == [False, True, False]


@pytest.mark.parametrize("to_file", [True, False], ids=["file", "standard output"])
def test_the_last_rows_may_have_no_text(embed, tmp_path, to_file):
    """They follow the last text that is sent."""
    source, output = tmp_path / "a.jsonl", tmp_path / "out.jsonl"
    source.write_text('"one"\n{"text": ""}\n{"text": null}\n')
    to = ["--output", output] if to_file else []
    code, out, _ = embed("--file", source, "--on-error", "null", *to)
    rows = lines(output.read_text() if to_file else out)
    assert (code, [row["embedding"] is None for row in rows]) == (3, [False, True, True])


def test_skipped_rows_are_reported_again(embed, tmp_path):
    """The report is deleted only when every row has a vector."""
    source, output = tmp_path / "a.txt", tmp_path / "a.npy"
    source.write_text("one\n" + "word " * 400 + "\n")
    given = ("--file", source, "--output", output)
    assert embed(*given, "--on-error", "null", "--dtype", "int8")[2].startswith(
        "error: An array of integers cannot hold null"
    )
    assert embed(*given, "--on-error", "skip")[0] == 3
    assert embed(*given, "--truncate", "right", "--overwrite")[0] == 0
    assert not (tmp_path / "a.npy.errors.jsonl").exists()


def test_a_file_without_a_valid_row_is_an_error(embed, tmp_path):
    """No output is written."""
    source, output = tmp_path / "a.txt", tmp_path / "a.npy"
    source.write_text("word " * 400 + "\n" + "word " * 500)
    code, _, err = embed("--file", source, "--output", output, "--on-error", "skip")
    assert (code, "no row can be embedded; the first has 402 tokens" in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_changed_content_is_refused(embed, tmp_path):
    """The message has the next steps. The checkpoint is unchanged."""
    source, output = tmp_path / "a.txt", tmp_path / "a.npy"
    source.write_text("one\n" + "word " * 400 + "\n")
    assert embed("--file", source, "--output", output)[0] == 1
    saved = part_of(output).read_bytes()
    source.write_text("one\ntwo\n")
    code, _, err = embed("--file", source, "--output", output, "--dimensions", "384")
    assert code == 1
    assert err == (
        f"error: {output}.part holds 1 row of another run: the content of {source} has "
        "changed; --dimensions was not given and is 384. To continue that run, use its file and "
        f"options. To start again, delete {output}.part.\n"
    )
    assert part_of(output).read_bytes() == saved
    part_of(output).unlink()
    assert embed("--file", source, "--output", output)[0] == 0


def test_vectors_of_another_model_are_refused(embed, running, tmp_path):
    """If the endpoint's model has changed since the first run."""
    source, output = tmp_path / "a.txt", tmp_path / "a.npy"
    source.write_text("one\n" + "word " * 400 + "\ntwo\n")
    assert embed("--file", source, "--output", output)[0] == 1
    log = part_of(output).read_bytes()
    part_of(output).write_bytes(log.replace(b"/int8/", b"/fp32/"))
    code, _, err = embed("--file", source, "--output", output, "--truncate", "right")
    assert (code, "Vectors of two spaces cannot be compared" in err) == (1, True)


DATA = json.dumps(["first", "second"])


@pytest.mark.parametrize("made", ["same", "symbolic", "hard"])
@pytest.mark.parametrize(
    ("file", "output"),
    [
        ("a.jsonl", "a.jsonl"),
        ("a.npy.json", "a.npy"),
        ("a.npy.errors.jsonl", "a.npy"),
        ("a.jsonl.part", "a.jsonl"),
    ],
)
def test_the_input_is_never_replaced(embed, tmp_path, made, file, output):
    """Under any name or link, with and without `--overwrite`."""
    source = tmp_path / "source" if made != "same" else tmp_path / file
    source.write_text(DATA)
    if made == "symbolic":
        (tmp_path / file).symlink_to(source)
    if made == "hard":
        (tmp_path / file).hardlink_to(source)
    for flags in [], ["--overwrite"]:
        given = ("--file", source, "--format", "json", "--output", tmp_path / output)
        code, _, err = embed(*given, *flags)
        assert (code, "is the input file and would be lost" in err) == (1, True)
    assert source.read_text() == (tmp_path / file).read_text() == DATA


def test_standard_input_is_never_replaced(tmp_path):
    """`embed --file - --output a.jsonl < a.jsonl`."""
    source = tmp_path / "a.jsonl"
    source.write_text('"one"\n')
    with source.open("rb") as file:
        ran = subprocess.run(
            [*EMBED, "--file", "-", "--format", "jsonl", "--overwrite", "--output", str(source)],
            stdin=file,
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, b"is the input file" in ran.stderr) == (1, True)
    assert source.read_text() == '"one"\n'


@pytest.mark.parametrize("name", ["keep.npy", "keep.npy.json", "keep.npy.errors.jsonl"])
def test_other_files_are_not_replaced(embed, tmp_path, name):
    """Every file that a run would replace is an error. Files with similar names are unchanged."""
    source, kept = tmp_path / "notes.json", tmp_path / "keep.json"
    source.write_text(DATA)
    kept.write_text("precious")
    (tmp_path / name).write_text("precious")
    given = ("--file", source, "--output", tmp_path / "keep.npy")
    code, _, err = embed(*given)
    assert (code, f"{tmp_path / name} already exists. Use --overwrite" in err) == (1, True)
    assert (tmp_path / name).read_text() == "precious"
    assert embed(*given, "--overwrite")[0] == 0
    assert (source.read_text(), kept.read_text()) == (DATA, "precious")
    assert len(np.load(tmp_path / "keep.npy")) == 2


def test_a_dangling_link_is_not_replaced(embed, tmp_path):
    """The link counts as an existing file."""
    source, output = tmp_path / "a.json", tmp_path / "a.npy"
    source.write_text(DATA)
    output.symlink_to(tmp_path / "elsewhere")
    assert "already exists" in embed("--file", source, "--output", output)[2]


@pytest.mark.parametrize(
    ("field", "output"),
    [("embedding", "o.jsonl"), ("embedding", "o.parquet"), ("vector_space", "o.jsonl")],
)
def test_a_field_that_the_output_adds_is_refused(embed, tmp_path, field, output):
    """It is not replaced. An array adds no fields."""
    source = tmp_path / "a.jsonl"
    source.write_text(f'"a"\n{{"text": "b", "{field}": 1}}\n')
    code, _, err = embed("--file", source, "--output", tmp_path / output)
    assert (code, f"already has a field {field!r}" in err) == (1, True)
    assert f"already has a field {field!r}" in embed("--file", source)[2]
    assert embed("--file", source, "--output", tmp_path / "o.npy")[0] == 0


def test_a_run_can_be_resumed_after_a_full_disk(embed, tmp_path, file_limit):
    """It prints no traceback and writes no incomplete output. With space, the command succeeds."""
    source, output = tmp_path / "a.txt", tmp_path / "out.jsonl"
    source.write_text("".join(f"row {number}\n" for number in range(300)))
    given = ("--file", source, "--output", output)
    # The second limit is enough for the checkpoint (460 KB), but not for the output.
    for limit, full in [(40_000, part_of(output)), (600_000, output)]:
        with file_limit(limit):
            code, _, err = embed(*given)
        assert (code, err) == (1, f"error: {full} cannot be written: File too large.\n")
        assert not output.exists()
    assert part_of(output).exists()
    assert embed(*given) == (0, "", f"{output}: 300 rows\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out.jsonl"]
