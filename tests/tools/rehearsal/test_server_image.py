"""The image of the server, which `scripts/test-image` builds and runs."""

from pathlib import Path

from tools.rehearsal.image.server_image import server_image


def test_an_environment_without_a_server_has_its_image(root: Path, tmp_path: Path) -> None:
    """The target is built from the context that has its files, and runs with a task's variables."""
    target = server_image(root, "dev", tmp_path / "cdk.out")
    assert target.asset.command[-5:] == ["--target", "server", "--platform", "linux/arm64", "."]
    assert target.asset.arguments["MODEL"]
    assert (target.asset.context / "embedder" / "server" / "serve.py").is_file()
    assert not (target.asset.context / "jobs" / "embed").exists()
    # What the function's handler knows, too; the server's own variables start it.
    assert target.variables == {"EMBEDDING_ENVIRONMENT": "dev", "EMBEDDING_TRUNCATE": "refuse"}
