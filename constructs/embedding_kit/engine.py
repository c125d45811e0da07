"""The embedder in your own process: `Engine.load(load_artifact("artifact")).embed(["a text"])`."""

from embedding_kit.programs import import_modules

_engine, _artifact = import_modules("embedder.core.engine", "embedder.core.artifact")
Engine = _engine.Engine
load_artifact = _artifact.load_artifact
