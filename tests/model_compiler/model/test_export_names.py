"""Names of exports: which of them are known, what each means, which is taken."""

import pytest

from model_compiler.errors import SourceError
from model_compiler.graph.quantization import Precision
from model_compiler.model.export_names import Choice, Kind, choose


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.onnx", Kind.FULL),
        ("model_optimized.onnx", Kind.FULL),
        ("model_O1.onnx", Kind.FULL),
        ("model_O3.onnx", Kind.FULL),
        ("model_O4.onnx", Kind.HALF),
        ("model_fp16.onnx", Kind.HALF),
        ("model_quantized.onnx", Kind.EIGHT),
        ("model_int8.onnx", Kind.EIGHT),
        ("model_uint8.onnx", Kind.EIGHT),
        ("model_qint8_avx512_vnni.onnx", Kind.EIGHT),
        ("model_qint8_arm64.onnx", Kind.EIGHT),
        ("model_quint8_avx2.onnx", Kind.EIGHT),
        ("model_q4.onnx", Kind.FOUR),
        ("model_q4f16.onnx", Kind.FOUR),
        ("model_bnb4.onnx", Kind.FOUR),
    ],
)
@pytest.mark.parametrize("folder", ["", "onnx/"])
def test_what_a_name_means(folder: str, name: str, kind: Kind) -> None:
    """Each common name is recognized in both folders."""
    assert choose([f"{folder}{name}", "other.onnx"], None) == Choice(f"{folder}{name}", kind, None)


ALL = ("model_q4.onnx", "onnx/model_quantized.onnx", "model_O4.onnx", "model.onnx")


@pytest.mark.parametrize(
    ("precision", "files", "expected"),
    [
        (None, ALL, Choice("model.onnx", Kind.FULL, None)),
        (Precision.FP32, ALL, Choice("model.onnx", Kind.FULL, None)),
        (Precision.INT8, ALL, Choice("onnx/model_quantized.onnx", Kind.EIGHT, "model.onnx")),
        (Precision.INT8, ALL[::3], Choice("model.onnx", Kind.FULL, None)),
        (None, ALL[:3], Choice("model_O4.onnx", Kind.HALF, None)),
        (None, ALL[:2], Choice("onnx/model_quantized.onnx", Kind.EIGHT, None)),
        (Precision.INT8, ALL[:1], Choice("model_q4.onnx", Kind.FOUR, None)),
        (None, ("model.onnx", "onnx/model.onnx"), Choice("onnx/model.onnx", Kind.FULL, None)),
        (
            Precision.INT8,
            ("model_quantized.onnx", "model_qint8_arm64.onnx", "model_qint8_avx2.onnx"),
            Choice("model_qint8_arm64.onnx", Kind.EIGHT, None),
        ),
        (None, ("encoder.onnx", "a/model.onnx", "model_.txt"), None),
    ],
)
def test_which_is_taken(
    precision: Precision | None, files: tuple[str, ...], expected: Choice | None
) -> None:
    """Full precision is preferred unless int8 is requested; it is then the reference."""
    assert choose(files, precision) == expected


def test_fp32_is_never_a_quantized_one() -> None:
    """A request for fp32 is refused, and the error names the exports found."""
    with pytest.raises(
        SourceError, match=r"quantized \(onnx/model_quantized\.onnx, model_q4\.onnx"
    ):
        choose(ALL[:2], Precision.FP32)
