"""Read what a post-processor, or a template of chats, puts around the texts of a pair.

Templates are in Jinja, which is a language. This module reads the part of it that rerankers use:
the contents of the messages `system`, `query` and `document`, with text around them, and refuses
any other expression.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

import tokenizers

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.folder import ConfigFolder
from model_compiler.tokenizer.classes import GENERIC, class_name
from model_compiler.tokenizer.file import TokenizerFile

#: Pairs of texts that show what the post-processor does.
PAIRS = (("a", "b"), ("Two words.", "東京 naïve 😀"), ("one two three", "x"))

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
    """The ids and texts around a query and a passage; see `embedder.core.artifact.ScoringEntry`."""

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
    library = tokenizers.Tokenizer.from_buffer(_with_pair(tokenizer.data))
    layouts = {_layout(library, query, passage, types=types) for query, passage in PAIRS}
    (layout, *different) = layouts
    if layout is None or different:
        raise UnsupportedModelError(
            "tokenizer.json: the post_processor must put the same ids around each text of a pair, "
            "and the type 0 at the first text and 0 or 1 at the second and what follows it."
        )
    return layout


def _with_pair(data: bytes) -> bytes:
    """Add what BERT's class puts around a pair to a file that is made of a `vocab.txt` alone."""
    document = json.loads(data.decode("utf-8", "surrogatepass"))
    post = document.get("post_processor") or {}
    if post.get("pair") != []:
        return data
    separator = {"SpecialToken": {**post["single"][-1]["SpecialToken"], "type_id": 1}}
    post["pair"] = [*post["single"], {"Sequence": {"id": "B", "type_id": 1}}, separator]
    return json.dumps(document).encode()


def _layout(
    library: tokenizers.Tokenizer, first: str, second: str, *, types: bool
) -> PairLayout | None:
    """Return the layout of one pair; None if the engine cannot make it."""
    pair = library.encode(first, second)
    first_ids, second_ids = (
        library.encode(text, add_special_tokens=False).ids for text in (first, second)
    )
    own = [index for index, text in enumerate(pair.sequence_ids) if text is not None]
    start, end = own[0], own[-1] + 1
    middle = start + len(first_ids)
    resumed = end - len(second_ids)
    ids = tuple(pair.ids)
    kept_whole = list(ids[start:middle]) == first_ids and list(ids[resumed:end]) == second_ids
    if not kept_whole or middle > resumed:
        return None
    second_type = pair.type_ids[resumed] if types else 0
    expected_types = [0] * resumed + [second_type] * (len(ids) - resumed)
    if types and (pair.type_ids != expected_types or second_type not in (0, 1)):
        return None
    return PairLayout(ids[:start], ids[middle:resumed], ids[end:], second_type)


def passes_types(folder: ConfigFolder) -> bool:
    """Return whether a folder's tokenizer gives the model token types."""
    config = folder.config("tokenizer_config.json", optional=True)
    names = config.optional("model_input_names")
    if isinstance(names, list):
        return "token_type_ids" in names
    model_type = folder.config("config.json").optional("model_type")
    stated = config.optional("tokenizer_class")
    name = class_name(stated, model_type)
    if name in GIVES_TYPES:
        return GIVES_TYPES[name]
    generic = " Versions 4 and 5 of transformers disagree about this class." * (name in GENERIC)
    raise UnsupportedModelError(
        f"{config.path}: model_input_names must say whether the model gets token_type_ids, which "
        f"the compiler does not know for the class {stated or 'of ' + str(model_type)}.{generic}"
    )


TEMPLATE_FILE = "chat_template.jinja"
#: Characters of it. Some 700: Qwen3-Reranker's; 30,000: templates of chats.
MOST_CHARACTERS = 100_000

#: The content of a role's message, and the default of a missing message.
CONTENT = (
    r"""messages\s*\|\s*selectattr\(\s*["']role["']\s*,\s*["']eq["']\s*,"""
    r"""\s*["'](?P<role>system|query|document)["']\s*\)\s*\|"""
    r"""\s*map\(\s*attribute\s*=\s*["']content["']\s*\)\s*\|\s*first"""
    r"""(?:\s*\|\s*default\(\s*(?:"(?P<default>[^"\\]*)"|'(?P<other>[^'\\]*)')\s*\))?"""
)
#: Any tag of Jinja, one that names a content, and one that puts a content or a name in the text.
TAG = re.compile(r"(\{[%{#].*?[%}#]\})", re.DOTALL)
SET = re.compile(r"\{%-?\s*set\s+(?P<name>\w+)\s*=\s*" + CONTENT + r"\s*-?%\}")
PUT = re.compile(r"\{\{-?\s*(?:(?P<name>\w+)|" + CONTENT + r")\s*-?\}\}")
#: Characters that may join the template's text in one token: white space of all kinds, those
#: that ASCII prints, zero-width ones, an accent, an ideograph and an emoji.
EDGES = (
    *(character for character in map(chr, range(0x3001)) if character.isspace()),
    *map(chr, range(0x21, 0x7F)),
    *"\u200b\u200d\ufeff\u0301\u00e9\u6771\U0001f600",
)
#: Queries and passages that would show a token across the border of two parts.
BORDERS = (
    *((edge, edge) for edge in EDGES),
    *((f"{edge}x{edge}", f"{edge}y{edge}") for edge in EDGES),
    *((f"x{edge}{edge}", f"y{edge}{edge}") for edge in EDGES),
    ("Is it?", "a"),
    ("two words ", " 2 words"),
    ("\n", "\n\n"),
    ("it's (so).\r\n", "... \U0001f600"),
    ("\u6771\u4eac ", "\u0301e"),
    ("", "Yes?"),
)


def template_text(folder: ConfigFolder) -> str | None:
    """Return a folder's template as transformers takes it; None without one."""
    if folder.has(TEMPLATE_FILE):
        try:
            return folder.content(TEMPLATE_FILE, MOST_CHARACTERS).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(f"{folder.path / TEMPLATE_FILE} is not UTF-8: {error}.") from error
    config = folder.config("tokenizer_config.json", optional=True)
    template = config.optional("chat_template")
    if template is None or isinstance(template, str):
        return template
    return config.fail("chat_template", "a string", template)


def read_pair_template(
    folder: ConfigFolder, tokenizer: TokenizerFile, *, instruction: str
) -> PairLayout:
    """Return a folder's template for a query and a passage.

    `instruction` is the content of the message `system`; empty without that message.
    """
    template = template_text(folder)
    if template is None:
        raise UnsupportedModelError(
            f"{folder} has no template for a query and a passage: neither {TEMPLATE_FILE} nor "
            "chat_template in tokenizer_config.json."
        )
    roles, texts = _parts(folder.path, template, instruction)
    if roles != ["query", "document"]:
        raise UnsupportedModelError(
            f"{folder}: the template of chats must have the content of the message query, and "
            f"then that of document, once each; found {', '.join(roles) or 'neither'}. A language "
            "model without such a template is no reranker."
        )
    before, middle, after = texts
    border = middle.rfind("\n") + 1
    query_suffix, passage_prefix = middle[:border], middle[border:]
    library = tokenizers.Tokenizer.from_buffer(tokenizer.data)

    def ids(text: str) -> list[int]:
        return list(library.encode(text, add_special_tokens=False).ids)

    for query, passage in BORDERS:
        together = ids(before + query + middle + passage + after)
        apart = ids(before + query + query_suffix) + ids(passage_prefix + passage) + ids(after)
        if together != apart:
            raise UnsupportedModelError(
                f"{folder}: the tokenizer makes one token of the template's text and a text "
                "next to it, for which each query would have to be tokenized with each passage."
            )
    return PairLayout(
        after=tuple(ids(after)),
        query_prefix=before,
        query_suffix=query_suffix,
        passage_prefix=passage_prefix,
    )


def _parts(folder: Path, template: str, instruction: str) -> tuple[list[str], list[str]]:
    """Return the roles of the messages in a template, and the texts around them.

    Whitespace at tags is as in transformers: `trim_blocks` and `lstrip_blocks` are on.
    """
    names: dict[str, re.Match[str]] = {}
    roles, texts = [], [""]
    # Jinja drops one line break at the end of the file.
    text, *tags = TAG.split(template.replace("\r\n", "\n").removesuffix("\n"))
    texts[-1] += _trimmed("", text, tags[0] if tags else "")
    for tag, text, following in zip(tags[::2], tags[1::2], [*tags, ""][2::2], strict=True):
        put, named = PUT.fullmatch(tag), SET.fullmatch(tag)
        content = put and (put if put["role"] else names.get(put["name"]))
        if named:
            names[named["name"]] = named
        elif content is None:
            raise UnsupportedModelError(
                f"{folder}: the template of chats has {tag}; of a reranker's, the compiler knows "
                "the contents of the messages system, query and document, and variables for them."
            )
        elif content["role"] == "system":
            texts[-1] += instruction or content["default"] or content["other"] or ""
        else:
            roles.append(content["role"])
            texts.append("")
        texts[-1] += _trimmed(tag, text, following)
    return roles, texts


def _trimmed(before: str, text: str, after: str) -> str:
    """Return the text between two tags, without the whitespace that Jinja removes."""
    if after.startswith(("{%-", "{{-")):
        text = text.rstrip()
    elif after.startswith("{%"):
        text = re.sub(r"(?<=\n)[ \t]+\Z" if before else r"(?:\A|(?<=\n))[ \t]+\Z", "", text)
    if before.endswith(("-%}", "-}}")):
        return text.lstrip()
    return text.removeprefix("\n") if before.endswith("%}") else text
