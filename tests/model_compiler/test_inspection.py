"""Inspections: the path that the compiler would take, and the missing files."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from model_compiler.command import main
from tests.model_compiler.goldens.encoder_models import EXPORTED, write_encoder
from tests.model_compiler.goldens.files import change_tensors, edit_json
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.sparse_models import write_sparse
from tests.model_compiler.goldens.static_models import WIDTH, write_sentence_transformers
from tests.model_compiler.goldens.tiny_models import write_model
from tests.model_compiler.local_hub import COMMIT
from tests.model_compiler.model.test_onnx_import import export

Capture = pytest.CaptureFixture[str]

NO_TOKENIZER = (
    "tokenizer.json is missing. Save the tokenizer again: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)."
)


def inspected(capture: Capture, *arguments: str, status: int) -> dict[str, Any]:
    """Return the JSON of an inspection that ends with this status."""
    assert main(["inspect", "--json", *arguments]) == status
    return json.loads(capture.readouterr().out)


def test_a_folder_that_compiles(tiny_folder, capsys):
    """The inspection has the path and what the manifest will say."""
    inspection = inspected(capsys, str(tiny_folder), status=0)
    assert (inspection["compiles"], inspection["path"], inspection["problems"]) == (
        True,
        "weights",
        [],
    )
    assert inspection["settings"] == {
        "architecture": "bert",
        "dimensions": [32],
        "max_tokens": 16,
        "prompts": {},
        "default_prompt": None,
        "tokenizer": "wordpiece",
    }
    assert main(["inspect", str(tiny_folder)]) == 0
    assert "tiny compiles from its weights.\n- architecture: bert\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "key", "allowed", "refused", "message"),
    [
        (
            "config_sentence_transformers.json",
            "prompts",
            {"query": "the " * 13},
            {"query": "the " * 14},
            r"'query' must leave room .* 16 tokens; found 16 tokens, special tokens included\.",
        ),
        (
            "sentence_bert_config.json",
            "max_seq_length",
            3,
            2,
            "limit of 2 tokens leaves no room for a text: tokenizer.json adds 2 special tokens",
        ),
    ],
)
def test_a_model_without_room_for_a_text(
    *, tiny_folder, capsys, file, key, allowed, refused, message
):
    """Special tokens or a prompt that fill the limit would give all texts one vector."""
    edit_json(tiny_folder / file, **{key: allowed})
    assert (
        inspected(capsys, str(tiny_folder), status=0)["settings"][
            "prompts" if key == "prompts" else "max_tokens"
        ]
        == allowed
    )
    edit_json(tiny_folder / file, **{key: refused})
    (problem,) = inspected(capsys, str(tiny_folder), status=1)["problems"]
    assert re.search(message, problem)
    assert main([str(tiny_folder), "--output", str(tiny_folder.parent / "out"), "--quiet"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {problem}"


def test_every_problem_is_listed(tiny_folder, capsys):
    """An unknown key and missing files are found at once."""
    edit_json(tiny_folder / "config.json", unheard_of=312)
    (tiny_folder / "tokenizer.json").unlink()
    inspection = inspected(capsys, str(tiny_folder), status=1)
    problem, *further = inspection["problems"]
    assert "config.json has settings that the compiler does not know: unheard_of = 312" in problem
    assert further == [NO_TOKENIZER]
    assert inspection["settings"] == {}
    assert main(["inspect", str(tiny_folder)]) == 1
    assert "tiny does not compile:\n- " in capsys.readouterr().out


def test_a_static_model(tmp_path, served, capsys):
    """A folder is read whole; of a hub's repository the table is not downloaded."""
    folder = write_sentence_transformers(tmp_path / "static")
    inspection = inspected(capsys, str(folder), status=0)
    assert (inspection["path"], inspection["settings"]["dimensions"]) == ("static", [WIDTH])
    assert main(["inspect", str(folder)]) == 0
    assert "static compiles from its table of vectors.\n" in capsys.readouterr().out
    served.repositories["acme/static"] = folder
    inspection = inspected(capsys, "acme/static", status=0)
    assert (inspection["path"], inspection["settings"]) == ("static", {})
    assert "Its table was not downloaded and is checked by the compile." in inspection["notes"]
    (folder / "tokenizer.json").unlink()
    inspection = inspected(capsys, str(folder), status=1)
    assert "tokenizer.json is missing" in inspection["problems"][0]


#: What becomes of a tensor with a name.
DAMAGE: dict[str, Callable[[str, npt.NDArray[np.float32]], dict[str, npt.NDArray[Any]]]] = {
    "missing": lambda _, __: {},
    "another shape": lambda name, tensor: {name: np.ascontiguousarray(tensor[1:])},
    "not a number": lambda name, tensor: {name: np.full_like(tensor, np.nan)},
    "integers": lambda name, tensor: {name: tensor.astype(np.int8)},
    "an unused one": lambda name, tensor: {name: tensor, "unused": tensor + 1},
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("encoder/model.safetensors", "encoder.layer.1.output.dense.weight"),
        ("encoder/2_Dense/model.safetensors", "linear.weight"),
        ("static/model.safetensors", "embedding.weight"),
    ],
)
def test_what_a_compile_finds_in_the_weights(tmp_path, file, name, damage, capsys):
    """An inspection reads them too, and has the words of the compile."""
    write_model(tmp_path / "encoder", dense=[(16, True, "activation.Tanh")])
    write_sentence_transformers(tmp_path / "static")
    tensors = load_file(tmp_path / file)
    save_file(DAMAGE[damage](name, tensors.pop(name)) | tensors, tmp_path / file)
    folder = tmp_path / file.partition("/")[0]
    (problem,) = inspected(capsys, str(folder), status=1)["problems"]
    assert main([str(folder), "--output", str(tmp_path / "artifact"), "--quiet"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {problem}"


def test_what_a_compile_finds_beside_an_export(tiny_folder, capsys):
    """The files of its weights and the modules after it are looked for."""
    edit_json(tiny_folder / "config.json", model_type="deberta-v2")
    (tiny_folder / "model.safetensors").unlink()
    export(tiny_folder / "model.onnx", external=True)
    inspected(capsys, str(tiny_folder), status=0)
    (tiny_folder / "model.onnx_data").unlink()
    (problem,) = inspected(capsys, str(tiny_folder), status=1)["problems"]
    assert problem.endswith("model.onnx_data is missing, in which model.onnx keeps its weights.")
    export(tiny_folder / "model.onnx", opset=11)
    (problem,) = inspected(capsys, str(tiny_folder), status=1)["problems"]
    assert "uses opset 11; the appended operators need 13" in problem


@pytest.mark.parametrize(
    ("write", "settings", "tensor"),
    [
        (write_sparse, {"task": "sparse", "dimensions": [77]}, "cls.predictions.bias"),
        (write_reranker, {"task": "rerank", "labels": ["LABEL_0"]}, "classifier.weight"),
    ],
)
def test_models_of_other_kinds(*, tmp_path, capsys, write, settings, tensor):
    """The inspection has the task, and checks the weights of the head."""
    folder = write(tmp_path / "tiny")
    assert inspected(capsys, str(folder), status=0)["settings"].items() >= settings.items()
    change_tensors(folder, lambda found: {name: found[name] for name in found if name != tensor})
    (problem,) = inspected(capsys, str(folder), status=1)["problems"]
    assert f"has no tensor '{tensor}'" in problem


def test_a_classifier_needs_no_modules(tmp_path, capsys):
    """What is missing is its own: a setting that is wrong is the only problem."""
    folder = write_reranker(tmp_path / "model", labels=3)
    edit_json(folder / "config.json", problem_type="multi_label")
    (problem,) = inspected(capsys, str(folder), status=1)["problems"]
    assert "problem_type must be one of" in problem


def test_pickles(tiny_folder, capsys):
    """Pickled weights are named and not opened."""
    (tiny_folder / "model.safetensors").rename(tiny_folder / "pytorch_model.bin")
    inspection = inspected(capsys, str(tiny_folder), status=1)
    assert inspection["path"] is None
    assert "The weights are pickles (pytorch_model.bin)" in inspection["problems"][0]
    assert "Convert it with: python -c" in inspection["problems"][0]


def test_an_unknown_family(tiny_folder, capsys):
    """The family is the problem; next to an export it is the reason, and the graph is read."""
    reason = "'deberta-v2' is not a supported architecture"
    edit_json(tiny_folder / "config.json", model_type="deberta-v2")
    assert reason in inspected(capsys, str(tiny_folder), status=1)["problems"][0]
    (tiny_folder / "model.onnx").write_bytes(b"graph")
    inspection = inspected(capsys, str(tiny_folder), status=1)
    assert (inspection["path"], inspection["export"]) == ("export", "model.onnx")
    assert reason in inspection["instead_of_weights"]
    assert "is cut short or not an ONNX file" in inspection["problems"][0]


def test_an_encoder_in_a_folder_of_any_name(tiny_folder, compile_tiny, capsys):
    """Its weights are found, and win over an export, as with an encoder at the top."""
    expected = compile_tiny(tiny_folder)
    encoder = tiny_folder / "encoder"
    encoder.mkdir()
    for path in list(tiny_folder.iterdir()):
        if path.is_file() and not path.name.startswith(("modules", "config_")):
            path.rename(encoder / path.name)

    def move(modules: list[dict[str, str]]) -> list[dict[str, str]]:
        return [modules[0] | {"path": "encoder"}, *modules[1:]]

    edit_json(tiny_folder / "modules.json", move)
    (tiny_folder / "model.onnx").write_bytes(b"graph")
    inspection = inspected(capsys, str(tiny_folder), status=0)
    assert (inspection["path"], inspection["export"]) == ("weights", None)
    graph = "model.onnx"
    compiled = compile_tiny(tiny_folder)
    assert Path(compiled.folder, graph).read_bytes() == Path(expected.folder, graph).read_bytes()


def test_only_descriptions_are_downloaded(served, tiny, capsys):
    """No weights come from the hub, and the commit that pins the model is in a note."""
    inspection = inspected(capsys, "acme/tiny", status=0)
    assert (inspection["path"], inspection["revision"], inspection["license"]) == (
        "weights",
        COMMIT,
        "mit",
    )
    assert inspection["notes"] == [f"This is the newest commit: --revision {COMMIT} pins it."]
    assert inspection["settings"]["dimensions"] == [32]
    assert all(path.endswith(".json") for path in served.paths())


def test_an_export_on_a_hub(served, tiny, capsys):
    """It is selected by its name, and the inspection says that the graph was not checked."""
    edit_json(tiny / "config.json", model_type="deberta-v2")
    (tiny / "model.safetensors").unlink()
    (tiny / "onnx").mkdir()
    (tiny / "onnx" / "model.onnx").write_bytes(b"graph")
    inspection = inspected(capsys, "acme/tiny", "--revision", COMMIT, status=0)
    assert (inspection["path"], inspection["export"]) == ("export", "onnx/model.onnx")
    assert inspection["notes"] == [
        "onnx/model.onnx itself was not downloaded and is checked by the compile."
    ]
    assert not any("onnx" in path for path in served.paths())
    assert main(["inspect", "acme/tiny"]) == 0
    assert "acme/tiny compiles from the export onnx/model.onnx." in capsys.readouterr().out
    (tiny / "tokenizer.json").unlink()
    served.commit = "1" * 40
    inspection = inspected(capsys, "acme/tiny", status=1)
    assert inspection["problems"] == [NO_TOKENIZER]


def test_weights_in_an_export(tmp_path, capsys):
    """Initializers that fit are weights; otherwise the export is used, and the reason is given."""
    folder = write_encoder(tmp_path / "model", "xlm-roberta", **EXPORTED)
    (folder / "model.safetensors").unlink()
    golden = Path(__file__).parent / "goldens" / "export_script.onnx"
    (folder / "model.onnx").write_bytes(golden.read_bytes())
    inspection = inspected(capsys, str(folder), status=0)
    assert (inspection["path"], inspection["export"]) == ("weights", None)
    assert inspection["notes"][0] == (
        "There are no weights but those in model.onnx, which are compiled."
    )
    edit_json(folder / "config.json", intermediate_size=32)
    inspection = inspected(capsys, str(folder), status=0)
    assert (inspection["path"], inspection["export"]) == ("export", "model.onnx")
    assert "has shape [32, 64]" in inspection["instead_of_weights"]


def test_weights_in_an_export_on_a_hub(served, tiny, capsys):
    """The compile will check the initializers, because the export is not downloaded."""
    (tiny / "model.safetensors").unlink()
    (tiny / "onnx").mkdir()
    (tiny / "onnx" / "model.onnx").write_bytes(b"graph")
    inspection = inspected(capsys, "acme/tiny", "--revision", COMMIT, status=0)
    assert (inspection["path"], inspection["settings"]["architecture"]) == ("weights", "bert")
    assert (
        "those in onnx/model.onnx, which are compiled. The compile checks" in inspection["notes"][0]
    )
    assert not any("onnx" in path for path in served.paths())


def test_a_name_that_does_not_exist(served, capsys):
    """Without an inspection, the status is that of an error."""
    assert main(["inspect", "acme/none"]) == 2
    assert "acme/none does not exist" in capsys.readouterr().err
