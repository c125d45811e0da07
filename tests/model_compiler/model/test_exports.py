"""Models with weights in an ONNX export alone."""

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from model_compiler.errors import SourceError
from model_compiler.graph.builder import Precision
from model_compiler.model.exports import ExportChoice, ExportPrecision, choose
from model_compiler.model.folder import ModelFolder
from model_compiler.model.reading import reading_of
from tests.model_compiler.goldens.encoder_models import EXPORTED, write_encoder
from tests.model_compiler.goldens.files import edit_json

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"


@pytest.fixture
def with_weights(tmp_path: Path) -> Path:
    """Return a folder with weights."""
    return write_encoder(tmp_path / "weights" / "model", "xlm-roberta", **EXPORTED)


@pytest.fixture(params=["script", "dynamo"])
def with_export(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder of the same model, with its weights in an export alone."""
    folder = write_encoder(tmp_path / "export" / "model", "xlm-roberta", **EXPORTED)
    (folder / "model.safetensors").unlink()
    (folder / "onnx").mkdir()
    shutil.copy(GOLDENS / f"export_{request.param}.onnx", folder / "onnx" / "model.onnx")
    return folder


@pytest.mark.parametrize("precision", Precision)
def test_the_artifact_is_that_of_the_weights(
    with_weights, with_export, compile_tiny, capsys, *, precision
):
    """Weights from an export are compiled into the same files as those from safetensors."""
    expected, compiled = compile_tiny(with_weights, precision), compile_tiny(with_export, precision)
    names = {path.name for path in Path(expected.folder).iterdir()}
    assert {path.name for path in Path(compiled.folder).iterdir()} == names
    for name in names:
        expected_file, compiled_file = (
            Path(artifact.folder, name) for artifact in (expected, compiled)
        )
        assert expected_file.read_bytes() == compiled_file.read_bytes()
    note = "note: There are no weights but those in onnx/model.onnx, which are compiled."
    assert note in capsys.readouterr().err


def test_initializers_of_another_shape(with_export):
    """The reason names the tensor and both shapes, without the folder."""
    edit_json(with_export / "config.json", intermediate_size=32)
    assert reading_of(ModelFolder.read(with_export), None).reason == (
        "onnx/model.onnx: 0.auto_model.encoder.layer.0.output.dense.weight has shape "
        "[32, 64]; the model's configuration asks for [32, 32]."
    ).replace("0.auto_model", prefix_of(with_export))


def prefix_of(folder: Path) -> str:
    """Return the module around the encoder of an export."""
    script = b"0.auto_model" in (folder / "onnx" / "model.onnx").read_bytes()
    return "0.auto_model" if script else "model"


def test_initializers_that_do_not_fit(with_export, compile_tiny, capsys):
    """The export is imported as it is; the note and the manifest say why."""
    edit_json(with_export / "config.json", num_hidden_layers=2)
    artifact = compile_tiny(with_export, Precision.INT8)
    assert artifact.manifest.model.architecture == "onnx"
    reason = artifact.manifest.fidelity["instead_of_weights"]
    prefix = prefix_of(with_export)
    assert reason.startswith(
        f"onnx/model.onnx has no tensor '{prefix}.encoder.layer.1.attention.output.LayerNorm.weight"
    )
    note = capsys.readouterr().err.splitlines()[0]
    assert note == f"note: {reason} The ready export onnx/model.onnx is used instead."


def reads_initializers(folder: Path) -> bool:
    """Return whether the initializers of a folder's export are its weights."""
    reading = reading_of(ModelFolder.read(folder), None)
    return reading.path == "weights" and reading.export is not None


def test_weights_are_preferred(with_export, with_weights):
    """Initializers are read only if a folder has no weights, and its family is known."""
    assert reads_initializers(with_export)
    save_file(load_file(with_weights / "model.safetensors"), with_export / "model.safetensors")
    assert not reads_initializers(with_export)


def test_exports_that_have_no_weights(with_export):
    """A quantized export, an unknown family, or a folder without modules is not tried."""
    full = with_export / "onnx" / "model.onnx"
    quantized = full.rename(with_export / "onnx" / "model_quantized.onnx")
    assert not reads_initializers(with_export)
    quantized.rename(full)
    (with_export / "modules.json").rename(with_export / "kept.json")
    assert not reads_initializers(with_export)
    (with_export / "kept.json").rename(with_export / "modules.json")
    assert reads_initializers(with_export)
    edit_json(with_export / "config.json", model_type="deberta-v2")
    assert not reads_initializers(with_export)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.onnx", ExportPrecision.FULL),
        ("model_optimized.onnx", ExportPrecision.FULL),
        ("model_O1.onnx", ExportPrecision.FULL),
        ("model_O3.onnx", ExportPrecision.FULL),
        ("model_O4.onnx", ExportPrecision.HALF),
        ("model_fp16.onnx", ExportPrecision.HALF),
        ("model_quantized.onnx", ExportPrecision.EIGHT),
        ("model_int8.onnx", ExportPrecision.EIGHT),
        ("model_uint8.onnx", ExportPrecision.EIGHT),
        ("model_qint8_avx512_vnni.onnx", ExportPrecision.EIGHT),
        ("model_qint8_arm64.onnx", ExportPrecision.EIGHT),
        ("model_quint8_avx2.onnx", ExportPrecision.EIGHT),
        ("model_q4.onnx", ExportPrecision.FOUR),
        ("model_q4f16.onnx", ExportPrecision.FOUR),
        ("model_bnb4.onnx", ExportPrecision.FOUR),
    ],
)
@pytest.mark.parametrize("folder", ["", "onnx/"])
def test_what_a_name_means(folder, name, kind):
    """Each common name is recognized in both folders."""
    assert choose([f"{folder}{name}", "other.onnx"], None) == ExportChoice(
        f"{folder}{name}", kind, None
    )


ALL = ("model_q4.onnx", "onnx/model_quantized.onnx", "model_O4.onnx", "model.onnx")


@pytest.mark.parametrize(
    ("precision", "files", "expected"),
    [
        (None, ALL, ExportChoice("model.onnx", ExportPrecision.FULL, None)),
        (Precision.FP32, ALL, ExportChoice("model.onnx", ExportPrecision.FULL, None)),
        (
            Precision.INT8,
            ALL,
            ExportChoice("onnx/model_quantized.onnx", ExportPrecision.EIGHT, "model.onnx"),
        ),
        (Precision.INT8, ALL[::3], ExportChoice("model.onnx", ExportPrecision.FULL, None)),
        (None, ALL[:3], ExportChoice("model_O4.onnx", ExportPrecision.HALF, None)),
        (None, ALL[:2], ExportChoice("onnx/model_quantized.onnx", ExportPrecision.EIGHT, None)),
        (Precision.INT8, ALL[:1], ExportChoice("model_q4.onnx", ExportPrecision.FOUR, None)),
        (
            None,
            ("model.onnx", "onnx/model.onnx"),
            ExportChoice("onnx/model.onnx", ExportPrecision.FULL, None),
        ),
        (
            Precision.INT8,
            ("model_quantized.onnx", "model_qint8_arm64.onnx", "model_qint8_avx2.onnx"),
            ExportChoice("model_qint8_arm64.onnx", ExportPrecision.EIGHT, None),
        ),
        (None, ("encoder.onnx", "a/model.onnx", "model_.txt"), None),
    ],
)
def test_which_is_taken(precision, files, expected):
    """Full precision is preferred unless int8 is requested; it is then the reference."""
    assert choose(files, precision) == expected


def test_fp32_is_never_a_quantized_one():
    """A request for fp32 is refused, and the error names the exports found."""
    with pytest.raises(
        SourceError, match=r"quantized \(onnx/model_quantized\.onnx, model_q4\.onnx"
    ):
        choose(ALL[:2], Precision.FP32)
