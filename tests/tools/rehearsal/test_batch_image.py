"""The image of batch jobs, which `scripts/test-image` builds and runs."""

from pathlib import Path

from tools.rehearsal.image.batch_image import batch_image


def test_an_environment_without_batch_jobs_has_their_image(root: Path, tmp_path: Path) -> None:
    """The target is built from the context that has its files, with the environment's model."""
    target = batch_image(root, "dev", tmp_path / "cdk.out")
    assert target.asset.command[-5:] == ["--target", "batch", "--platform", "linux/arm64", "."]
    assert target.asset.arguments["MODEL"]
    assert (target.asset.context / "jobs" / "embed" / "handler.py").is_file()
    assert target.command == ("jobs.embed.handler.handler",)
    assert target.variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "1769"
