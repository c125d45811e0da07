"""Which model the endpoint serves, and on whose terms."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from embedding_kit.settings.base import Settings, allowed, refuse

__all__ = ["TERMS", "Model"]

#: Models whose makers ask for acceptance of their terms, by the start of the name; and the terms.
TERMS = {
    "google/embeddinggemma": "https://ai.google.dev/gemma/terms",
    "google/gemma": "https://ai.google.dev/gemma/terms",
    "onnx-community/embeddinggemma": "https://ai.google.dev/gemma/terms",
    "unsloth/embeddinggemma": "https://ai.google.dev/gemma/terms",
}


class Model(Settings):
    """The model that is compiled into the image."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$", max_length=128
        ),
        allowed("a catalogue name such as google/embeddinggemma-300m"),
    ] = Field(description="The model, by its name in the catalogue.")
    precision: Literal["int8", "fp32"] = Field(
        default="int8",
        description="Arithmetic of the weights: `int8` is smaller and faster, `fp32` is exact.",
    )
    accept_licence: bool = Field(
        default=False,
        description="Whether you accept the model's terms, for a model whose maker asks for it.",
    )
    hub_token_variable: (
        Annotated[
            str, Field(pattern=r"^[A-Z][A-Z0-9_]*$"), allowed("a variable's name such as HF_TOKEN")
        ]
        | None
    ) = Field(
        default=None,
        description="The deploying shell's variable that holds the model hub's token, for a gated "
        "model. It reaches the image's build as a secret and stays in no layer.",
    )
    index: Path | None = Field(
        default=None,
        strict=False,
        description="A file of texts (JSON list or one per line) that `POST /similar` searches; "
        "relative to the environment's file.",
    )

    @property
    def terms(self) -> str | None:
        """Where the terms stand that the user must accept; None where the model asks for none."""
        return next((url for start, url in TERMS.items() if self.name.startswith(start)), None)

    @model_validator(mode="after")
    def _terms_accepted(self) -> Self:
        if self.terms and not self.accept_licence:
            raise refuse(
                f"{self.name} is used under its maker's terms, {self.terms}, "
                "which are yours to accept",
                found="accept_licence = false",
                allowed="accept_licence = true, once you have read them; or another model",
            )
        return self
