"""Merges a LoRA adapter of peft into its base's weights, tensor by tensor, as float32.

A matrix W becomes W + scale · B A (Hu et al., arXiv:2106.09685). Biases and whole modules that were
trained besides take the place of the base's. `adapter_config.json` says how to scale; the names and
shapes in `adapter_model.safetensors` say which of the base's tensors change.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import StoredTensor, Weights, open_tensors, stored_tensors

__all__ = ["ADAPTER_FILE", "ADAPTER_WEIGHTS", "MERGE", "merged_tensors"]

ADAPTER_FILE = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
#: What to do about an adapter that is not merged here.
MERGE = "Merge it with peft's merge_and_unload(), and save the model again."

#: What a name in the file begins with: peft's own wrappers of the model.
PREFIX = "base_model.model."
#: The parts of a linear layer and of an embedding.
LINEAR, EMBEDDING = ("A.weight", "B.weight"), ("embedding_A", "embedding_B")
BIAS = "B.bias"
#: Variants of LoRA that compute something else, or change the base before the training.
OFF = (
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "layer_replication",
    "loftq_config",
    "megatron_config",
    "monteclora_config",
    "runtime_config",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_dora",
    "use_qalora",
    "velora_config",
)
#: Initial values that leave the base as it is.
INITIAL = (True, False, None, "eva", "gaussian", "orthogonal")


@dataclass(frozen=True, slots=True)
class _Settings:
    path: Path
    rank: int
    alpha: float
    ranks: Mapping[str, Any]
    alphas: Mapping[str, Any]
    by_root: bool
    targets: str | list[str]

    def scale(self, module: str, rank: int) -> float:
        """Return the factor of a module's product; its rank must be the stated one."""
        if not self._is_target(module):
            raise SourceError(f"{self.path}: target_modules must select {module}, which has values")
        stated = self.ranks.get(_pattern(self.ranks, module), self.rank)
        alpha = self.alphas.get(_pattern(self.alphas, module), self.alpha)
        if rank != stated or type(alpha) not in {int, float}:
            raise SourceError(
                f"{self.path}: {module} must have the rank of its matrix and a number as alpha; "
                f"found the rank {stated} for a matrix of {rank}, and the alpha {alpha}."
            )
        return float(alpha / (math.sqrt(rank) if self.by_root else rank))

    def _is_target(self, module: str) -> bool:
        if isinstance(self.targets, str):
            linear = self.targets == "all-linear"
            return linear or re.fullmatch(self.targets, module) is not None
        return any(f".{module}".endswith(f".{name}") for name in self.targets)


def merged_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a base with the adapter in the same folder.

    Raises:
        SourceError: If a file is missing or damaged, or the adapter does not fit the base.
        UnsupportedModelError: If it is no LoRA adapter, or a variant that is not known.
    """
    try:
        return _merged(folder)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{error} {MERGE}") from error
    except re.error as error:
        raise SourceError(f"{folder / ADAPTER_FILE} has a wrong pattern: {error}.") from error


def _merged(folder: Path) -> dict[str, StoredTensor]:
    settings = _read_settings(folder / ADAPTER_FILE)
    path = folder / ADAPTER_WEIGHTS
    stored = open_tensors(path)
    adapter = Weights(folder, tensors=stored)
    merged, layers = stored_tensors(folder), dict[str, list[str]]()
    for name, tensor in stored.items():
        module, lora, part = name.removeprefix(PREFIX).rpartition(".lora_")
        if lora:
            layers.setdefault(module, []).append(part)
        else:
            changed = _in_base(merged, part.replace(".base_layer.", "."), path)
            merged[changed] = _checked(tensor, merged[changed].shape)
    for module, parts in layers.items():
        weight = _in_base(merged, f"{module}.weight", path)
        base = merged[weight]
        names = EMBEDDING if set(parts) == set(EMBEDDING) else LINEAR
        if set(parts) - {BIAS} != set(names):
            raise UnsupportedModelError(
                f"{path}: {module} must have {' and '.join(LINEAR)}, or {' and '.join(EMBEDDING)}; "
                f"found {', '.join(sorted(parts))}."
            )
        down, up = (f"{PREFIX}{module}.lora_{part}" for part in names)
        rank = adapter.shape(down)[0]
        scale = settings.scale(module, rank)
        rows, columns = base.shape if names is LINEAR else base.shape[::-1]
        product = _product(adapter, (down, rank, columns), (up, rows, rank), scale)
        merged[weight] = _sum(base, product if names is LINEAR else _transposed(product))
        if BIAS in parts:
            bias = _in_base(merged, f"{module}.bias", path)
            added = _scaled(adapter, f"{PREFIX}{module}.lora_{BIAS}", rows, scale)
            merged[bias] = _sum(merged[bias], added)
    return merged


def _read_settings(path: Path) -> _Settings:
    config = ConfigFile(path)
    config.require("peft_type", "LORA")
    for key in OFF:
        config.require(key, None, False, {}, [])
    config.require("init_lora_weights", *INITIAL)
    targets = config.optional("target_modules")
    names = [targets] if isinstance(targets, str) else targets
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        config.fail("target_modules", "a string or a list of strings", targets)
    patterns = [config.optional(key) or {} for key in ("rank_pattern", "alpha_pattern")]
    if not all(isinstance(pattern, dict) for pattern in patterns):
        config.fail("rank_pattern and alpha_pattern", "objects", patterns)
    settings = _Settings(
        path=path,
        rank=config.integer("r", 8),
        alpha=config.number("lora_alpha", 8),
        ranks=patterns[0],
        alphas=patterns[1],
        by_root=config.boolean("use_rslora", False),
        targets=targets,
    )
    config.done(ADAPTER_FILE)
    return settings


def _pattern(patterns: Iterable[str], module: str) -> str:
    """Return the first pattern that matches the end of a module's name, as peft looks for it."""
    return next((each for each in patterns if re.match(rf"(.*\.)?({each})$", module)), module)


def _in_base(base: Mapping[str, StoredTensor], name: str, path: Path) -> str:
    """Return the base's name of a tensor: either may have a prefix of the model's class."""
    found = [
        each for each in base if f".{each}".endswith(f".{name}") or f".{name}".endswith(f".{each}")
    ]
    if len(found) != 1:
        raise SourceError(
            f"{path} does not fit its base: {name} must be one of the base's tensors; found "
            f"{', '.join(found[:3]) or 'none of that name'}."
        )
    return found[0]


def _checked(tensor: StoredTensor, shape: tuple[int, ...]) -> StoredTensor:
    if tensor.shape != shape:
        raise SourceError(
            f"{tensor.file} does not fit its base: a tensor of the shape {list(shape)} must keep "
            f"it; found {list(tensor.shape)}."
        )
    return tensor


Read = Callable[[], npt.NDArray[np.float32]]
#: A tensor's name and shape.
Matrix = tuple[str, int, int]


def _product(adapter: Weights, down: Matrix, up: Matrix, scale: float) -> Read:
    for name, *shape in (down, up):
        if adapter.shape(name) != tuple(shape):
            raise SourceError(
                f"{adapter.folder} does not fit its base: {name} must have the shape {shape}; "
                f"found {list(adapter.shape(name))}."
            )
    return lambda: np.float32(scale) * (adapter.take(*up) @ adapter.take(*down))


def _transposed(read: Read) -> Read:
    return lambda: read().T


def _scaled(adapter: Weights, name: str, size: int, scale: float) -> Read:
    return lambda: np.float32(scale) * adapter.take(name, size)


def _sum(base: StoredTensor, added: Read) -> StoredTensor:
    """Return a tensor of the base with what an adapter adds to it."""

    def read() -> npt.NDArray[np.float32]:
        return base.read().astype(np.float32) + added()

    return replace(base, dtype="F32", read=read)
