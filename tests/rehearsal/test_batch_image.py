"""The image of batch jobs, which `scripts/verify-image` builds and runs."""

from pathlib import Path

from image_rehearsal.batch_image import batch_image
from image_rehearsal.image_under_test import variables_of


def test_an_environment_without_batch_jobs_has_their_image(root: Path, tmp_path: Path) -> None:
    """The target is built from the context that has its files, with the environment's model."""
    asset, function = batch_image(root, "dev", tmp_path / "cdk.out")
    assert asset.command[-5:] == ["--target", "batch", "--platform", "linux/arm64", "."]
    assert asset.arguments["MODEL"]
    assert (asset.context / "batch_embedding" / "handler.py").is_file()
    assert function["ImageConfig"]["Command"] == ["batch_embedding.handler.handler"]
    assert variables_of(function)["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "1769"
