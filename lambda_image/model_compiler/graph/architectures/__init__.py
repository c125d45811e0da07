"""The supported architectures, by the `model_type` of their `config.json`.

Each family has a module here. Its `FAMILY` reads a `config.json` into a typed, frozen configuration
and rejects unknown settings; the `build` method of that configuration turns weights into a graph
that ends in the last hidden state. `.github/CONTRIBUTING.md` says how to add one.
"""

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures import (
    bert,
    embedding_gemma2,
    gemma3,
    gte,
    jina_bert,
    jina_embeddings_v3,
    llama,
    modernbert,
    nomic_bert,
    t5,
)
from model_compiler.graph.bases.encoder import Architecture
from model_compiler.graph.bases.family import Family, require_encoder

__all__ = ["FAMILIES", "Architecture", "parse"]

FAMILIES: dict[str, Family] = {
    **bert.FAMILIES,
    **embedding_gemma2.FAMILIES,
    **gte.FAMILIES,
    **llama.FAMILIES,
    "bert": jina_bert.FAMILY,
    "gemma3_text": gemma3.FAMILY,
    "jina_embeddings_v3": jina_embeddings_v3.FAMILY,
    "modernbert": modernbert.FAMILY,
    "nomic_bert": nomic_bert.FAMILY,
    "t5": t5.FAMILY,
}


#: What works for every family: an export holds the model's own computation. The field is for what
#: a model with code of its own needs.
REMEDY = (
    "An ONNX export of it would compile: SentenceTransformer(FOLDER, "
    'backend="onnx"{}).save_pretrained(FOLDER) writes onnx/model.onnx.'
)


def parse(config: ConfigFile, *, remedy: str = REMEDY) -> Architecture:
    """Parse a `config.json` with the parser of its family.

    The error for a model that the compiler cannot express ends in `remedy`.
    """
    try:
        return _parse(config)
    except UnsupportedModelError as error:
        code = ", trust_remote_code=True" if config.has("auto_map") else ""
        raise UnsupportedModelError(f"{error} {remedy.format(code)}".rstrip()) from error


def _parse(config: ConfigFile) -> Architecture:
    model_type = config.string("model_type")
    family = FAMILIES.get(model_type)
    if config.has("auto_map") and not (family and family.own_code):
        raise UnsupportedModelError(
            f"{config.path}: auto_map names code of the model's own, for which other programs need "
            f"trust_remote_code. The compiler never runs such code, and model_type {model_type!r} "
            "without it may be another model."
        )
    if family is None:
        raise UnsupportedModelError(
            f"{config.path}: model_type {model_type!r} is not a supported architecture; "
            f"the compiler supports {', '.join(sorted(FAMILIES))}."
        )
    require_encoder(config, encoder_decoder=family.encoder_decoder)
    parsed = family.parse(config)
    config.done("config.json", family.harmless)
    return parsed
