"""The layers of a saved image."""

import hashlib
import io
import tarfile
from pathlib import Path

from tools.rehearsal.image.layers import LARGE_BYTES, _files


def test_large_files_have_the_digest_of_their_content(tmp_path: Path):
    """A file under the limit has none."""
    large, small = b"x" * LARGE_BYTES, b"y" * (LARGE_BYTES - 1)
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as layer:
        for name, content in (("./var/task/large", large), ("var/task/small", small)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            layer.addfile(member, io.BytesIO(content))
    with tarfile.open(tmp_path / "image.tar", "w") as image:
        member = tarfile.TarInfo("layer.tar")
        member.size = len(inner.getvalue())
        image.addfile(member, io.BytesIO(inner.getvalue()))
    with tarfile.open(tmp_path / "image.tar") as saved:
        found = {str(file.path): (file.size, file.digest) for file in _files(saved, "layer.tar")}
    assert found == {
        "/var/task/large": (len(large), hashlib.sha256(large).hexdigest()),
        "/var/task/small": (len(small), ""),
    }
