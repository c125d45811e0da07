"""A small recipe, with a compiler and packages that take no time."""

import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "lambda_image"
#: The compiler's part of the recipe: it writes the artifacts that are not there yet, counts that it
#: did, and puts them together.
COMPILER = """
import json, shutil, sys
from pathlib import Path
words = sys.argv[1:]
models = json.loads(Path(words[1]).read_text())
texts = models.pop("texts", None)
folders = {key: Path(words[words.index("--artifacts") + 1], key) for key in models}
for key, folder in folders.items():
    if folder.exists():
        continue
    folder.mkdir(parents=True)
    files = {"model.onnx.data": {}}
    manifest = {"tokenizer": {"kind": "wordpiece"}, "said": models[key], "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "model.onnx.data").write_bytes(bytes(1000))
    with (Path(__file__).parents[2] / "runs.log").open("a") as log:
        log.write(models[key]["name"] + chr(10))
if "--output" in words:
    output = Path(words[words.index("--output") + 1])
    served = {key: folder for key, folder in folders.items() if key != "documents"}
    for key, folder in served.items():
        shutil.copytree(folder, output / "artifact" / ("" if len(served) == 1 else key))
    if len(served) > 1:
        (output / "artifact" / "artifacts.json").write_text("{}")
    if texts:
        shutil.copytree(folders.get("documents", folders["model"]), output / "index")
"""


@pytest.fixture
def recipe(tmp_path) -> Path:
    """Return a recipe with a compiler that writes an empty model."""
    folder = tmp_path / "recipe"
    pins = "numpy==1 \\\n    --hash=sha256:a\ntokenizers==2 \\\n    --hash=sha256:b\n"
    for name, text in {
        "requirements.txt": pins,
        "compiler-requirements.txt": "",
        "unused-files.txt": "# not run\ntests\nnumpy/f2py\n",
        "finish_layer.py": (RECIPE / "finish_layer.py").read_text(),
        "model_compiler/__init__.py": "",
        "model_compiler/__main__.py": COMPILER,
        "embedder/__init__.py": "",
        "embedder/aws_lambda/handler.py": "def handler(event, context):\n    return event\n",
        "embedder/core/operator.aarch64.so": "",
        "embedder/core/operator.x86_64.so": "",
        "embedder/server/__init__.py": "",
        "jobs/__init__.py": "",
        "jobs/embed/__init__.py": "",
        "jobs/release_check/__init__.py": "",
        "zip_builder/__init__.py": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def local_wheels(monkeypatch) -> list[str]:
    """Download one wheel of each package from nowhere; return the requirements that were asked."""
    downloads: list[str] = []

    def download(requirements: str, *, machine: str, folder: Path) -> None:
        folder.mkdir()
        downloads.append(requirements)
        names = [line.partition("==")[0] for line in requirements.splitlines() if "==" in line]
        for name in names:
            with zipfile.ZipFile(folder / f"{name}-1-cp313-{machine}.whl", "w") as wheel:
                wheel.writestr(f"{name}/__init__.py", "VALUE = 1\n")
                wheel.writestr(f"{name}/tests/test_it.py", "")
                wheel.writestr(f"{name}/f2py/__init__.py", "")
                wheel.writestr(f"{name}-1.data/platlib/{name}/core.so", bytes(10))
                wheel.writestr(f"{name}-1.data/scripts/{name}", "#!python")

    monkeypatch.setattr("zip_builder.tree.download_wheels", download)
    return downloads


@pytest.fixture
def this_python(monkeypatch) -> None:
    """Compile byte code with this Python, whatever its version."""
    monkeypatch.setattr("zip_builder.tree.find_python", lambda: sys.executable)


@pytest.fixture
def runs(tmp_path) -> Path:
    return tmp_path / "runs.log"
