"""`embed models`: the models of the catalog, from a file that the documentation's script writes."""

import argparse
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from embedding_client.errors import ConfigurationError

Facts = Mapping[str, Any]

#: The cell of a value that no source states.
NOTHING = "–"
#: Languages of XLM-RoBERTa or LaBSE. A model of many languages has its own list on its card.
#: https://arxiv.org/abs/1911.02116, https://arxiv.org/abs/2007.01852
_LANGUAGES = """\
afrikaans, albanian, amharic, arabic, armenian, assamese, azerbaijani, basque, belarusian, bengali,
bosnian, breton, bulgarian, burmese, catalan, cebuano, chichewa, chinese, corsican, croatian, czech,
danish, dutch, english, esperanto, estonian, filipino, finnish, french, frisian, galician, georgian,
german, greek, gujarati, haitian creole, hausa, hawaiian, hebrew, hindi, hmong, hungarian,
icelandic, igbo, indonesian, irish, italian, japanese, javanese, kannada, kazakh, khmer,
kinyarwanda, korean, kurdish, kyrgyz, lao, latin, latvian, lithuanian, luxembourgish, macedonian,
malagasy, malay, malayalam, maltese, maori, marathi, mongolian, nepali, norwegian, oriya, oromo,
pashto, persian, polish, portuguese, punjabi, romanian, russian, samoan, sanskrit, scottish gaelic,
serbian, sesotho, shona, sindhi, sinhala, slovak, slovenian, somali, spanish, sundanese, swahili,
swedish, tagalog, tajik, tamil, tatar, telugu, thai, tibetan, turkish, turkmen, ukrainian, urdu,
uyghur, uzbek, vietnamese, welsh, wolof, xhosa, yiddish, yoruba, zulu"""
_WIDTHS = (38, 5, 7, 4, 5, 5, 6, 5, 5)


def catalog() -> dict[str, Any]:
    """Return the content of the file: `models`, and the `benchmarks` of their quality."""
    text = files("embedding_client").joinpath("models.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def run_models(args: argparse.Namespace) -> int:
    """Run `embed models`."""
    content = catalog()
    if args.language is not None:
        _check_language(args.language, content["models"])
    models = [model for model in content["models"] if _fits(model, args)]
    if args.json:
        print(json.dumps({**content, "models": models}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(_lines(models, content["benchmarks"])))
    return 0


def cells(model: Facts) -> dict[str, str]:
    """Return what the tables show of a model, by its column."""
    memory = list((model["memory_mb"] or {}).values())
    quality = model["quality"]
    return {
        "dims": _number(model["dimensions"][0] if model["dimensions"] else None, "d"),
        "tokens": _number(model["max_tokens"], ",d"),
        "MB": _number(model["megabytes"], ".0f"),
        "memory": _number(memory[0] if memory else None, "d"),
        "32": _ratio(model["tokens_32"]),
        "256": _ratio(model["tokens_256"]),
        "search": _number(quality.get("retrieval"), ".1f"),
        "many": _number(quality.get("multilingual"), ".1f"),
    }


def _fits(model: Facts, args: argparse.Namespace) -> bool:
    memory = (model["memory_mb"] or {}).get("512")
    named = _named(model)
    language = args.language is None or not named or args.language.lower() in named
    tokens = args.tokens is None or (model["max_tokens"] or args.tokens) >= args.tokens
    fits = args.memory is None or (memory is not None and memory <= args.memory)
    return language and tokens and fits


def _named(model: Facts) -> set[str]:
    """Return the languages of a model; none if their list is only on its card."""
    written = model["languages"].lower()
    return set() if written == "many" or written[-1].isdigit() else set(written.split(", "))


def _check_language(language: str, models: list[Facts]) -> None:
    """Refuse another name than a language's in English: it would find all models of many."""
    languages = sorted(
        set(", ".join(_LANGUAGES.split(",\n")).split(", ")).union(*map(_named, models))
    )
    if language.lower() not in languages:
        raise ConfigurationError(
            f"--language: found: {language!r}; allowed: the English name of a language: "
            f"{', '.join(languages)}."
        )


def _lines(models: list[Facts], benchmarks: Mapping[str, Facts]) -> Iterator[str]:
    group = ""
    for model in models:
        row = cells(model)
        if model["group"] != group:
            yield from ("",) if group else ()
            group = model["group"]
            yield _aligned(group, ("dims", "tokens", "MB", "mem", "32", "256", "srch", "many"))
        star = "*" if model["license"] not in {"apache-2.0", "mit"} else ""
        yield _aligned(model["name"].rpartition("/")[2] + star, tuple(row.values()))
    yield ""
    yield "mem: memory_mb for texts of up to 512 tokens. 32, 256: CPU time of a text"
    yield "with 32 or 256 tokens, as a multiple of all-MiniLM-L6-v2's."
    for name, key in (("srch", "retrieval"), ("many", "multilingual")):
        facts = benchmarks[key]
        yield f"{name}: {facts['title']}, {facts['about']},"
        yield f"  {facts['source']}, {facts['date']}."
    yield f"{NOTHING}: not stated. *: terms to accept; the others are Apache-2.0 or MIT."
    yield "--json has languages, smaller dimensions, memory for longer texts, and more."


def _aligned(name: str, row: tuple[str, ...]) -> str:
    name_width, *widths = _WIDTHS
    # A longer name has a line of its own.
    first = f"{name:{name_width}}" if len(name) <= name_width else f"{name}\n{'':{name_width}}"
    return first + "".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True))


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else f"{value:{form}}"


def _ratio(value: float | None) -> str:
    """Return a digit after the point; two for a static model, which takes a hundredth."""
    return _number(value, ".1f" if value is None or value >= 0.1 else ".2f")
