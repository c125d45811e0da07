"""The plugin: the names of MiniStack that it uses still exist."""

import os
import subprocess
from pathlib import Path

from tools.rehearsal.deploy.emulator import environment_of_ministack

PLUGIN = Path(__file__).parents[3] / "tools" / "rehearsal" / "ministack"


#: Prints each name of MiniStack that the plugin uses and MiniStack does not have.
MISSING = """
import ast, importlib, pathlib, ministack_plugin
for file in pathlib.Path(ministack_plugin.__file__).parent.glob("ministack_*.py"):
    names = vars(importlib.import_module(file.stem))
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                module = getattr(names.get(name), "__name__", "")
                if module.startswith("ministack.") and not hasattr(names[name], attribute):
                    print(f"{module}.{attribute}")
"""


def test_ministack_has_all_names_that_the_plugin_uses():
    """A version of MiniStack without one of them fails here first."""
    command = [str(environment_of_ministack()), "-c", MISSING]
    # `scripts/test` sets PYTHONSAFEPATH, so that the current folder is not on the path.
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
