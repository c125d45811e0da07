"""The layers of a saved image, in order, with the files of each."""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.rehearsal.image.docker import Docker

__all__ = ["LARGE_BYTES", "File", "Image", "Layer", "save"]

#: The size from which a file is large, so that checks ask whether the image needs it.
LARGE_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class File:
    """A regular file of a layer.

    Attributes:
        path: Its absolute path in the image.
        size: Bytes.
        mode: Its permissions.
        digest: SHA-256 of the content of a large file; empty for a smaller one.
    """

    path: PurePosixPath
    size: int
    mode: int
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer: its digest when unpacked, its regular files, and its tar in the archive."""

    digest: str
    files: tuple[File, ...]
    member: str

    @property
    def size(self) -> int:
        """Unpacked bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True)
class Image:
    """A saved image.

    Attributes:
        archive: The file that `docker save` wrote.
        platform: The platform, such as `linux/arm64`.
        command: The container's default command.
        layers: The layers; the base image's come first.
        base_layers: The number of the base image's layers.
        manifests: The number of images in the archive; an index has several.
    """

    archive: Path
    platform: str
    command: tuple[str, ...]
    layers: tuple[Layer, ...]
    base_layers: int
    manifests: int

    @property
    def own(self) -> tuple[Layer, ...]:
        """The layers above the base's."""
        return self.layers[self.base_layers :]

    def read(self, layer: Layer, wanted: str) -> Iterator[tuple[PurePosixPath, bytes]]:
        """Read the regular files of a layer whose path starts with `wanted`."""
        with tarfile.open(self.archive) as outer, _inner(outer, layer.member) as tar:
            for member in tar:
                path = _absolute(member.name)
                if member.isfile() and str(path).startswith(wanted):
                    content = tar.extractfile(member)
                    if content is not None:
                        yield path, content.read()


def save(docker: Docker, name: str, *, base: str, folder: Path) -> Image:
    """Save an image into `folder` and read its layers.

    Args:
        docker: The daemon with the image.
        name: The image.
        base: The base image of its last stage.
        folder: The folder for the archive.
    """
    archive = folder / "image.tar"
    docker.run("save", "--output", str(archive), name)
    base_digests = json.loads(
        docker.run("image", "inspect", "--format", "{{json .RootFS.Layers}}", base)
    )
    with tarfile.open(archive) as outer:
        manifests = json.loads(_read(outer, "manifest.json"))
        manifest = manifests[0]
        config = json.loads(_read(outer, manifest["Config"]))
        digests = config["rootfs"]["diff_ids"]
        layers = tuple(
            Layer(digest=digest, files=_files(outer, member), member=member)
            for digest, member in zip(digests, manifest["Layers"], strict=True)
        )
    if digests[: len(base_digests)] != base_digests:
        raise ValueError(f"the image does not start with the layers of {base}")
    return Image(
        archive=archive,
        platform=f"{config['os']}/{config['architecture']}",
        command=tuple(config["config"].get("Cmd") or ()),
        layers=layers,
        base_layers=len(base_digests),
        manifests=len(manifests),
    )


def _read(outer: tarfile.TarFile, name: str) -> bytes:
    member = outer.extractfile(name)
    if member is None:
        raise ValueError(f"the saved image has no {name}")
    return member.read()


def _inner(outer: tarfile.TarFile, name: str) -> tarfile.TarFile:
    # Some daemons save a layer once and link to it; tarfile follows the link.
    stream = outer.extractfile(name)
    if stream is None:
        raise ValueError(f"the saved image has no layer {name}")
    return tarfile.open(fileobj=stream)


def _files(outer: tarfile.TarFile, name: str) -> tuple[File, ...]:
    with _inner(outer, name) as tar:
        return tuple(
            File(
                path=_absolute(member.name),
                size=member.size,
                mode=member.mode,
                digest=_digest(tar, member) if member.size >= LARGE_BYTES else "",
            )
            for member in tar
            if member.isfile()
        )


def _digest(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = tar.extractfile(member)
    assert content is not None  # noqa: S101  (a regular file)
    return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]  # it reads into buffers


def _absolute(name: str) -> PurePosixPath:
    return PurePosixPath("/", name.removeprefix("./"))
