"""Small random models with a pooling that leaves out the prompt's tokens."""

from pathlib import Path

from tests.model_compiler.goldens.families import write_family
from tests.model_compiler.goldens.tiny_models import leave_prompts_out, write_model

#: `joined` ends in the middle of a word, `long` leaves two tokens of a small model.
PROMPTS = {"query": "parse: ", "none": "", "joined": "the ti", "long": "parse the time, " * 3}
#: Each pooling alone, all of them, and encoders with other attention, tokens and projections.
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
MODELS = (*MODES[:-1], "all", "gemma3_text", "modernbert", "mpnet")


def write_model_of(folder: Path, name: str) -> Path:
    """Write one of `MODELS`, and return its folder."""
    modes = MODES if name == "all" else (name,)
    small = name in {*MODES, "all"}
    written = write_model(folder, pooling=modes) if small else write_family(folder, name)
    return leave_prompts_out(written, PROMPTS)
