"""The artifact's folder is written whole or not at all."""

import errno
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import orjson
import pytest

from embedder.core.artifact import load_artifact
from embedder.core.errors import ArtifactError
from model_compiler.artifact import writer as artifact_writer
from model_compiler.artifact.writer import new_folder
from model_compiler.errors import OutputError
from model_compiler.files.folder import verify_files


def write(output: Path, content: bytes = b"{}") -> None:
    with new_folder(output) as partial:
        (partial / "manifest.json").write_bytes(content)


def test_the_folder_appears_at_the_end(tmp_path):
    """The output does not exist until the block ends."""
    output = tmp_path / "deep" / "artifact"
    with new_folder(output) as partial:
        (partial / "manifest.json").write_bytes(b"{}")
        assert not output.exists()
    assert [path.name for path in output.iterdir()] == ["manifest.json"]
    assert [path.name for path in output.parent.iterdir()] == ["artifact"]


def test_an_error_leaves_nothing(tmp_path):
    """If the block raises, neither the output nor the temporary folder exists."""

    def interrupted() -> None:
        with new_folder(tmp_path / "artifact") as partial:
            (partial / "model.onnx").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_artifact_is_replaced_whole(tmp_path):
    """The new artifact has none of the old one's files."""
    write(tmp_path / "artifact")
    (tmp_path / "artifact" / "old.bin").write_bytes(b"old")
    write(tmp_path / "artifact", b'{"new": 1}')
    assert [path.name for path in (tmp_path / "artifact").iterdir()] == ["manifest.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["artifact"]


def test_an_error_keeps_the_old_artifact(tmp_path):
    """A compile that fails leaves the previous artifact unchanged."""
    write(tmp_path / "artifact", b"old")
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "artifact"):
        raise ZeroDivisionError
    assert (tmp_path / "artifact" / "manifest.json").read_bytes() == b"old"


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("stays", ["for one call", "for good"])
def test_a_rename_that_fails(tmp_path, monkeypatch, failing, stays):
    """If a rename fails, the old artifact is kept or restored, and a retry works."""
    output = tmp_path / "artifact"
    write(output, b"old")
    rename, calls = Path.rename, []

    def failing_rename(path: Path, target: Path) -> Path:
        calls.append(path.name)
        if len(calls) == failing or (stays == "for good" and len(calls) >= failing):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing_rename)
        with pytest.raises(OutputError, match="Permission denied") as error:
            write(output, b"new")
    if output.exists():
        assert "The previous folder is unchanged" in str(error.value)
        assert (output / "manifest.json").read_bytes() == b"old"
    else:  # even the way back was closed: the next compile to the place goes it
        assert f"is now {tmp_path}/.artifact.old; the next compile restores" in str(error.value)
        with pytest.raises(ZeroDivisionError), new_folder(output):
            raise ZeroDivisionError
        assert (output / "manifest.json").read_bytes() == b"old"
    write(output, b"new")
    assert (output / "manifest.json").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["artifact"]


def test_the_last_step_fails(tmp_path, monkeypatch):
    """A new artifact that could not be synchronized to the disk is removed again."""
    output = tmp_path / "artifact"
    synchronize = artifact_writer._flush

    def failing(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error", str(path))
        synchronize(path)

    for before in (None, b"old"):
        if before:
            write(output, before)
        with monkeypatch.context() as patch:
            patch.setattr(artifact_writer, "_flush", failing)
            with pytest.raises(OutputError, match="Input/output error") as error:
                write(output, b"new")
        assert ("Nothing was written" in str(error.value)) == (before is None)
        assert [path.name for path in tmp_path.iterdir()] == (["artifact"] if before else [])
        if before:
            assert (output / "manifest.json").read_bytes() == before


def test_a_link_to_the_output_stays_one(tmp_path):
    """Where the output is a link, the folder that it leads to is replaced."""
    write(tmp_path / "real", b"old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "manifest.json").read_bytes() == b"new"


def test_other_folders_are_not_touched(tmp_path):
    """A folder with other things in it, and a file, are refused and left."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="contains other files and was not changed"):
        write(tmp_path)
    with pytest.raises(OutputError, match="is a file; the output must be a folder"):
        write(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_two_compiles_to_one_place(tmp_path):
    """The second of two compiles at once is refused, and spoils nothing of the first."""
    with new_folder(tmp_path / "artifact") as partial:
        with pytest.raises(OutputError, match="Another compile is writing"):
            write(tmp_path / "artifact")
        (partial / "manifest.json").write_bytes(b"first")
    assert (tmp_path / "artifact" / "manifest.json").read_bytes() == b"first"


def test_a_full_disk(tiny_folder, compile_tiny, tmp_path, file_limit):
    """A disk that fills up while the weights are written gives one clear error and no folder."""
    before = set(tmp_path.iterdir())
    with file_limit(20_000), pytest.raises(OutputError, match="Nothing was written") as refused:
        compile_tiny(tiny_folder)
    assert "too large" in str(refused.value)
    assert set(tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_written(tmp_path):
    """A place under a file can hold no folder; the error says which place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/artifact cannot be written: File exists"):
        write(tmp_path / "file" / "artifact")


@pytest.mark.slow
def test_a_killed_compile_leaves_nothing_that_loads(tiny_folder, tmp_path):
    """Killed right before the manifest, it leaves no artifact, and the next compile works."""
    output = tmp_path / "out" / "artifact"
    program = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from model_compiler import compile
        compile.manifest_bytes = lambda content: os.kill(os.getpid(), signal.SIGKILL)
        from model_compiler.source.find import find_source
        compile.compile_model(
            find_source({str(tiny_folder)!r}),
            Path({str(output)!r}),
            compile.CompileOptions(thresholds=None, progress=False),
        )
        """
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()
    leftovers = list(output.parent.iterdir())
    assert leftovers != []  # a killed process cannot clear up
    for folder in leftovers:
        with pytest.raises(ArtifactError):
            load_artifact(folder)
    write(output)
    assert [path.name for path in output.parent.iterdir()] == ["artifact"]


def test_hashes_are_verified(tmp_path):
    """A changed or missing file is named with the expected hash."""
    (tmp_path / "a").write_bytes(b"a")
    right = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert verify_files(tmp_path, {"a": right}) == []
    (tmp_path / "a").write_bytes(b"b")
    (tmp_path / "endless").symlink_to("/dev/zero")
    wrong = verify_files(tmp_path, {"a": right, "gone": right, "endless": right})
    assert wrong[0].startswith("a has sha256 3e23e8160039594a")
    assert right in wrong[0]
    assert wrong[1] == "gone cannot be read: No such file or directory"
    assert wrong[2] == "endless cannot be read: not a regular file"


def test_the_embedder_reads_what_the_compiler_writes(tiny_folder, compile_tiny):
    """The contract: format, checksum, files and fields are the same on both sides."""
    artifact = compile_tiny(tiny_folder)
    folder = Path(artifact.folder)
    manifest = artifact.manifest
    document = orjson.loads((folder / "manifest.json").read_bytes())
    assert set(document) == set(manifest._fields)
    assert manifest.dimensions == (32,)
    assert manifest.max_tokens == 16
    assert manifest.graph.inputs == ("input_ids", "attention_mask")
    assert set(manifest.files) == {path.name for path in folder.iterdir()} - {"manifest.json"}
