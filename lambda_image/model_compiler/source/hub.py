"""Downloads a model from a hub (Hugging Face, or the one in HF_ENDPOINT) at one commit.

huggingface_hub reads the token from HF_TOKEN or `hf auth login`; it is never written anywhere. Only
files that the compiler reads are downloaded.
"""

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, errors
from huggingface_hub.hf_api import ModelInfo

from model_compiler.errors import SourceError
from model_compiler.graph.builder import Precision
from model_compiler.model.exports import choose, has_weights, why_not_compiled
from model_compiler.model.folder import SPARSE_HEAD, check_kind, is_cross_encoder, is_sparse
from model_compiler.source import Source
from model_compiler.source.catalog import Repository

#: The files that name a model's kind, and the vocabulary of a tokenizer without a JSON file.
CONFIGURATION = ("*.json", "*.jinja", "*/config.json", "vocab.txt", SPARSE_HEAD)
#: The files of a sentence-transformers folder. Weights in other formats are not downloaded.
PATTERNS = (*CONFIGURATION, "*.safetensors")
#: The files of an ONNX export; its weights may be in separate files next to it.
ONNX_PATTERNS = (*CONFIGURATION, "*/model.safetensors")


def is_repository_name(name: str) -> bool:
    """Return whether a name has the form of a hub repository, `owner/name`."""
    return re.fullmatch(r"(\w[\w.-]*)/(\w[\w.-]*)", name, re.ASCII) is not None


def download(
    repositories: Sequence[Repository],
    *,
    revision: str | None,
    precision: Precision | None,
    descriptions: bool,
) -> Source:
    """Download a model from the first of its repositories that works; the original is first.

    The mirrors are not used for a `revision`, which is the original's. The precision selects one of
    several ready exports. With `descriptions`, only the JSON files are downloaded.
    """
    wanted = [(repository.name, repository.revision) for repository in repositories]
    if revision:
        wanted = [(repositories[0].name, revision)]
    reasons = []
    for name, commit in wanted:
        try:
            return _download(name, commit, precision, descriptions=descriptions)
        except SourceError as error:
            reasons.append(str(error))
    raise SourceError(" ".join(reasons))


def _download(
    name: str, revision: str | None, precision: Precision | None, *, descriptions: bool
) -> Source:
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    where = f"{api.endpoint}/{name}"
    try:
        info = api.model_info(name, revision=revision)
        if info.sha is None:
            raise SourceError(f"{where} did not say at which commit it is.")

        def fetch(patterns: Sequence[str]) -> Path:
            return Path(
                api.snapshot_download(name, revision=info.sha, allow_patterns=list(patterns))
            )

        files = frozenset(sibling.rfilename for sibling in info.siblings or ())
        folder = fetch(CONFIGURATION)
        if not descriptions:
            # Before gigabytes are downloaded of a model that cannot be compiled.
            check_kind(folder, name=where)
            folder = fetch(_patterns(files, precision, folder))
    except errors.GatedRepoError as error:
        raise SourceError(
            f"{where} is gated: accept its terms there with your account, and set HF_TOKEN to a "
            "token of that account that may read it."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise SourceError(
            f"{where} does not exist, or is private: then set HF_TOKEN to a token that may read it."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise SourceError(f"{where} has no revision {revision!r}.") from error
    except errors.HfHubHTTPError as error:
        raise SourceError(f"{where} answered with status {error.response.status_code}.") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, httpx2.HTTPError) as error:
        raise SourceError(f"{where} cannot be reached ({type(error).__name__}).") from error
    return Source(folder, name, info.sha, _license(info), newest=revision is None, files=files)


def _patterns(files: Collection[str], precision: Precision | None, folder: Path) -> list[str]:
    """Return the patterns of the weights, or else of the selected export and its reference."""
    if is_cross_encoder(folder) or is_sparse(folder):  # which are compiled from weights alone
        return list(PATTERNS)
    # Without an export, the family does not matter.
    known = not any(name.endswith(".onnx") for name in files) or why_not_compiled(folder) is None
    if known and has_weights(folder, files):
        return list(PATTERNS)
    # A known family is compiled from the initializers of an export in full precision.
    choice = choose(files, None if known else precision)
    # Next to a graph, exporters write `model.onnx_data`, `model.onnx_data_1` or `model.onnx.data`.
    taken = [name for name in (choice.name, choice.reference) if name] if choice else []
    return [*ONNX_PATTERNS, *(f"{name}{end}" for name in taken for end in ("", "_data*", ".data"))]


def _license(info: ModelInfo) -> str | None:
    tags = (tag for tag in info.tags or () if tag.startswith("license:"))
    return next((tag.removeprefix("license:") for tag in tags), None)
