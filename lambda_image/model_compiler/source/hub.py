"""Fetches a model from a hub (Hugging Face's, or another one at HF_ENDPOINT) at one commit.

The token comes from HF_TOKEN or from `hf auth login`, as huggingface_hub finds it; it is never
written anywhere. Only files that the compiler reads are fetched.
"""

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, errors
from huggingface_hub.hf_api import ModelInfo

from model_compiler.errors import SourceError
from model_compiler.graph.quantization import Precision
from model_compiler.model.export_folder import why_not_compiled
from model_compiler.model.export_names import choose
from model_compiler.source.catalogue import Repository

__all__ = ["Download", "download", "download_first", "is_repository_name"]

#: What a sentence-transformers folder is made of. Weights in other formats are left where they are.
PATTERNS = ("*.json", "*/config.json", "*.safetensors")
#: What says whether the compiler knows a model's family.
CONFIGURATION = ("*.json", "*/config.json")
#: What an ONNX export is made of; its weights may stand in a file of their own beside it.
ONNX_PATTERNS = ("*.json", "*/config.json", "*/model.safetensors")


@dataclass(frozen=True, slots=True)
class Download:
    """A repository's files at one commit."""

    folder: Path
    commit: str
    license: str | None


def is_repository_name(name: str) -> bool:
    """Say whether a name has the form of a hub repository's, `owner/name`."""
    return re.fullmatch(r"(\w[\w.-]*)/(\w[\w.-]*)", name, re.ASCII) is not None


def download_first(
    repositories: Sequence[Repository],
    *,
    revision: str | None = None,
    precision: Precision | None = None,
) -> Download:
    """Fetch a model from the first of its repositories that gives it.

    Args:
        repositories: mirrors of one model, the original first.
        revision: a revision of the original, which then is the only one that is asked.
        precision: which of several ready exports is wanted.

    Raises:
        SourceError: if none gives it; the message has each one's reason.
    """
    if revision:
        return download(repositories[0].name, revision=revision, precision=precision)
    reasons = []
    for repository in repositories:
        try:
            return download(repository.name, revision=repository.revision, precision=precision)
        except SourceError as error:
            reasons.append(str(error))
    raise SourceError(" ".join(reasons))


def download(
    name: str, *, revision: str | None = None, precision: Precision | None = None
) -> Download:
    """Fetch a repository's files.

    Args:
        name: `owner/name`.
        revision: a commit, branch or tag; none for the newest.
        precision: which of several ready exports is wanted.

    Raises:
        SourceError: if the repository or the revision is not there, is not open to the caller, or
            the hub cannot be reached.
    """
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

        files = {sibling.rfilename for sibling in info.siblings or ()}
        folder = fetch(_patterns(files, precision, fetch))
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
    return Download(folder=folder, commit=info.sha, license=_license(info))


def _patterns(
    files: Collection[str],
    precision: Precision | None,
    fetch: Callable[[Sequence[str]], Path],
) -> list[str]:
    """Return what to fetch: the weights, or else the export that is taken and its reference."""
    exports = [name for name in files if name.endswith(".onnx")]
    if any(name.endswith(".safetensors") and "/" not in name for name in files) and not (
        exports and why_not_compiled(fetch(CONFIGURATION)) is not None
    ):
        return list(PATTERNS)
    choice = choose(exports, precision)
    # Beside a graph, exporters write `model.onnx_data`, `model.onnx_data_1` or `model.onnx.data`.
    taken = [name for name in (choice.name, choice.reference) if name] if choice else []
    return [
        *ONNX_PATTERNS,
        *(f"{name}{end}" for name in taken for end in ("", "_data*", ".data")),
    ]


def _license(info: ModelInfo) -> str | None:
    for tag in info.tags or ():
        if tag.startswith("license:"):
            return tag.removeprefix("license:")
    return None
