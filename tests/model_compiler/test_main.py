"""The command: its output, its errors and its exit status."""

import shutil
from pathlib import Path

import pytest

from embedder.core.artifact import load_artifact
from model_compiler.command import main
from model_compiler.model.folder import ModelFolder
from model_compiler.source import LocalModel, find
from tests.model_compiler.conftest import merged
from tests.model_compiler.goldens.files import edit_json, special_tokens

Capture = pytest.CaptureFixture[str]


def error_of(capture: Capture) -> str:
    """Return the one line on standard error."""
    captured = capture.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: ")
    return captured.err


def test_a_folder_is_compiled(tiny_folder, tmp_path, capsys):
    """The artifact is written, and the last line has its path, its space and its size."""
    output = tmp_path / "artifact"
    assert main([str(tiny_folder), "--output", str(output), "--precision", "fp32"]) == 0
    space = load_artifact(output).manifest.vector_space
    printed = capsys.readouterr().out
    assert "cosine to full precision, lowest" in printed
    assert printed.splitlines()[-1].startswith(f"{output}: {space}, ")


def test_notes_on_the_tokenizer(tiny_folder, tmp_path, capsys):
    """The output names dropped tokens, and the reason why the library is used."""
    edit_json(
        tiny_folder / "tokenizer.json",
        lambda value: merged(
            value,
            added_tokens=[*value["added_tokens"], *special_tokens({"<image>": 77})],
            pre_tokenizer={"type": "Whitespace"},
        ),
    )
    assert main([str(tiny_folder), "--output", str(tmp_path / "artifact"), "--unmeasured"]) == 0
    printed = capsys.readouterr().out
    assert "treated as ordinary text, because the model has no row for it: <image>" in printed
    assert "the embedder will use the `tokenizers` library: " in printed


@pytest.mark.parametrize("command", [[], ["compile"]])
def test_compile_may_be_omitted(tiny_folder, tmp_path, command):
    """A model without a command is compiled, also if options come first, which count."""
    output = tmp_path / "artifact"
    options = ["--unmeasured", "--quiet", "--dimensions", "16,8", "--output", str(output)]
    assert main([*command, *options, str(tiny_folder)]) == 0
    manifest = load_artifact(output).manifest
    assert (manifest.precision, manifest.dimensions) == ("int8", (32, 16, 8))


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--help"], 0, "verify "),
        (["compile", "--help"], 0, "--default-prompt NAME"),
        (["verify", "--help"], 0, "the artifact's folder"),
        ([], 2, "the following arguments are required: COMMAND"),
        (["verify"], 2, "the following arguments are required: artifact"),
        (["--quiet"], 2, "the following arguments are required: model"),
    ],
)
def test_each_command_has_help(capsys, arguments, status, text):
    """The help lists the commands and their options, and an error names the missing argument."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    assert ended.value.code == status
    assert text in (captured.err if status else captured.out)


def test_quiet_says_nothing(tiny_folder, tmp_path, capsys):
    """With --quiet neither progress nor a report is written."""
    arguments = ["--output", str(tmp_path / "artifact"), "--precision", "fp32", "--quiet"]
    assert main([str(tiny_folder), *arguments]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no-such-model", "'no-such-model' is not a folder, a model of the catalog or a reposit"),
        ("google/embeddinggemma-300m", "--accept-license gemma"),
        (".", "is not a sentence-transformers folder: it has no modules.json. Found"),
    ],
)
def test_an_error_is_one_line_and_status_2(tmp_path, capsys, monkeypatch, model, message):
    """Every error of the model is one line, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main([model, "--output", "artifact", "--quiet"]) == 2
    assert message in error_of(capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["--list", "list"])
def test_list(capsys, command):
    """Both spellings list the catalog, as a table or as JSON."""
    assert main([command]) == 0
    assert "all-MiniLM-L6-v2  " in capsys.readouterr().out
    assert main([command, "--json"]) == 0
    assert capsys.readouterr().out.startswith("[")


def test_the_newest_commit_is_named(tiny_folder, tmp_path, capsys, monkeypatch):
    """A download that nothing pins prints the option that pins it."""
    newest = LocalModel(
        ModelFolder.read(tiny_folder), "acme/tiny", "c" * 40, "mit", None, newest=True
    )
    monkeypatch.setattr("model_compiler.command.find_source", lambda *_, **__: newest)
    options = ["--output", str(tmp_path / "artifact"), "--unmeasured", "--quiet"]
    assert main(["acme/tiny", *options]) == 0
    assert f"To pin it, use --revision {'c' * 40} here" in capsys.readouterr().err


def test_verify(tiny_folder, compile_tiny, capsys):
    """An artifact as it was written passes; a changed byte of the same size is found."""
    folder = Path(compile_tiny(tiny_folder).folder)
    assert main(["verify", str(folder)]) == 0
    assert "4 files as written" in capsys.readouterr().out
    weights = folder / "model.onnx"
    changed = bytearray(weights.read_bytes())
    changed[-20] ^= 1
    weights.write_bytes(changed)
    assert main(["verify", str(folder)]) == 2
    assert "was changed: model.onnx has sha256" in error_of(capsys)
    assert main(["verify", str(folder.parent)]) == 2
    assert "is not an artifact" in error_of(capsys)


def test_a_wheel_that_was_changed_is_refused(minilm_folder, tmp_path, capsys, monkeypatch):
    """A wheel with a configuration of another hash is refused."""
    copy = tmp_path / "wheel"
    shutil.copytree(minilm_folder, copy)
    (copy / "config.json").write_text("{}")
    monkeypatch.setattr(find, "_wheel_folder", lambda _: copy)
    assert main(["all-MiniLM-L6-v2", "--output", str(tmp_path / "artifact")]) == 2
    assert "config.json has sha256 44136fa355b3678a" in error_of(capsys)
