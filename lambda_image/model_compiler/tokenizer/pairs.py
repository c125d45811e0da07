"""How a tokenizer joins two texts: the ids around them, and the token types."""

from pathlib import Path
from typing import NamedTuple

import tokenizers

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.tokenizer.classes import GENERIC, class_name
from model_compiler.tokenizer.file import TokenizerFile

#: Pairs of texts that show what the post-processor does.
EXAMPLES = (("a", "b"), ("Two words.", "東京 naïve 😀"), ("one two three", "x"))

#: Whether a class of transformers gives a model token types, unless a file says otherwise.
GIVES_TYPES = {
    "BertTokenizer": True,
    "CamembertTokenizer": False,
    "DistilBertTokenizer": False,
    "ElectraTokenizer": True,
    "Qwen2Tokenizer": False,
    "RobertaTokenizer": False,
    "TokenizersBackend": False,
    "XLMRobertaTokenizer": False,
}


class PairLayout(NamedTuple):
    """What is around a query and a passage; see `embedder.core.artifact.ScoringEntry`."""

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    second_type: int = 0
    query_prefix: str = ""
    query_suffix: str = ""
    passage_prefix: str = ""


def read_pair_layout(tokenizer: TokenizerFile, *, types: bool) -> PairLayout:
    """Return what the post-processor of a `tokenizer.json` does with a pair.

    `types` says whether the model gets the token types; without, they count as 0.
    """
    library = tokenizers.Tokenizer.from_buffer(tokenizer.data)
    layouts = {_layout(library, first, second, types=types) for first, second in EXAMPLES}
    (layout, *others) = layouts
    if layout is None or others:
        raise UnsupportedModelError(
            "tokenizer.json: the post_processor must put the same ids around each text of a pair, "
            "and the type 0 at the first text and 0 or 1 at the second and what follows it."
        )
    return layout


def _layout(
    library: tokenizers.Tokenizer, first: str, second: str, *, types: bool
) -> PairLayout | None:
    """Return the layout of one pair; None if the engine cannot make it."""
    pair = library.encode(first, second)
    one, other = (library.encode(text, add_special_tokens=False).ids for text in (first, second))
    own = [index for index, text in enumerate(pair.sequence_ids) if text is not None]
    start, end = own[0], own[-1] + 1
    middle = start + len(one)
    resumed = end - len(other)
    ids = tuple(pair.ids)
    if list(ids[start:middle]) != one or list(ids[resumed:end]) != other or middle > resumed:
        return None
    second_type = pair.type_ids[resumed] if types else 0
    wanted = [0] * resumed + [second_type] * (len(ids) - resumed)
    if types and (pair.type_ids != wanted or second_type not in (0, 1)):
        return None
    return PairLayout(ids[:start], ids[middle:resumed], ids[end:], second_type)


def passes_types(folder: Path) -> bool:
    """Return whether a folder's tokenizer gives the model token types."""
    config = ConfigFile(folder / "tokenizer_config.json", optional=True)
    names = config.optional("model_input_names")
    if isinstance(names, list):
        return "token_type_ids" in names
    model_type = ConfigFile(folder / "config.json").optional("model_type")
    stated = config.optional("tokenizer_class")
    name = class_name(stated, model_type)
    if name in GIVES_TYPES:
        return GIVES_TYPES[name]
    generic = " Versions 4 and 5 of transformers disagree about this class." * (name in GENERIC)
    raise UnsupportedModelError(
        f"{config.path}: model_input_names must say whether the model gets token_type_ids, which "
        f"the compiler does not know for the class {stated or 'of ' + str(model_type)}.{generic}"
    )
