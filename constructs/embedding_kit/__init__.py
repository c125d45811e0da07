"""Constructs for a text-embedding model on AWS Lambda, with the resources for production.

```python
from aws_cdk import App, Stack
from embedding_kit import EmbeddingEndpoint, ModelSettings

app = App()
model = ModelSettings(name="BAAI/bge-small-en-v1.5")
EmbeddingEndpoint(Stack(app, "Search"), "Embeddings", model=model)
app.synth()
```

Each name is imported from its module on first use: importing the CDK takes seconds, and the
commands that read an environment's settings do not need it. The stub next to this file lists the
names, for this module and for type checkers.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_IMPORT = re.compile(r"^from (\S+) import (\w+) as", re.MULTILINE)
#: The module of each public name.
_MODULES = dict(sorted((name, module) for module, name in _IMPORT.findall(_STUB)))
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
