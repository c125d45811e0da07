"""Makes `vocabularies.json`: ids of texts, by transformers, from `vocab.txt` without other files.

pip install transformers==5.23.0 tokenizers orjson safetensors
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_vocabularies.py
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import transformers

from tests.model_compiler.goldens.tiny_models import TEXTS, write_vocabulary

#: What each folder's `tokenizer_config.json` says.
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "cased": {"do_lower_case": False},
    "accents": {"strip_accents": False},
    "no Chinese": {"tokenize_chinese_chars": False},
    "other tokens": {"cls_token": "hello", "unk_token": "x"},
    "mpnet": {"tokenizer_class": "MPNetTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    | {"bos_token": "[CLS]", "eos_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"},
}
SPELLINGS = [*TEXTS, "", "Hello [SEP] WORLD", "caf\u00e9 \u6771\u4eac", "##a [UNK] x\ty", "a" * 120]


def main() -> None:
    """Write the ids with the version of the library."""
    folders: dict[str, Any] = {}
    for name, settings in SETTINGS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_vocabulary(Path(temporary), **settings)
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
            ids = [tokenizer(text)["input_ids"] for text in SPELLINGS]
            folders[name] = {"settings": settings, "ids": ids}
    path = Path(__file__).with_name("vocabularies.json")
    values = {"version": transformers.__version__, "texts": SPELLINGS, "folders": folders}
    path.write_text(json.dumps(values, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
