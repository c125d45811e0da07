"""Merges a LoRA adapter of peft into its base's weights, tensor by tensor, as float32.

A matrix W becomes W + scale · B A (Hu et al., arXiv:2106.09685). Biases and whole modules that were
trained besides take the place of the base's. `adapter_config.json` says how to scale; the names and
shapes in `adapter_model.safetensors` say which of the base's tensors change.
"""

import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.folder import ConfigFolder
from model_compiler.files.weights import (
    StoredTensor,
    Weights,
    modern_names,
    open_tensors,
    some,
    stored_tensors,
)

ADAPTER_FILE = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
#: The name of its weights as a pickle, which is never opened.
ADAPTER_PICKLE = "adapter_model.bin"
#: What to do about an adapter that is not merged here.
MERGE = "Merge it with peft's merge_and_unload(), and save the model again."

#: What a name in the file begins with: peft's own wrappers of the model.
PREFIX = "base_model.model."
#: The parts of a linear layer and of an embedding.
LINEAR, EMBEDDING = ("A.weight", "B.weight"), ("embedding_A", "embedding_B")
BIAS = "B.bias"
#: Variants of LoRA that compute something else, or change the base before the training.
OFF = """
    alora_invocation_tokens arrow_config kasa_config layer_replication loftq_config megatron_config
    monteclora_config runtime_config target_parameters trainable_token_indices use_bdlora use_dora
    use_qalora velora_config"""
#: Initial values that leave the base as it is.
INITIAL = (True, False, None, "eva", "gaussian", "orthogonal")


class _Settings:
    def __init__(self, config: ConfigFile) -> None:
        config.require("peft_type", "LORA")
        for key in OFF.split():
            config.require(key, None, False, {}, [])
        config.require("init_lora_weights", *INITIAL)
        selected = {key: config.optional(key) for key in ("target_modules", "exclude_modules")}
        for key, value in {**selected, "layers_pattern": config.optional("layers_pattern")}.items():
            missing = value is None and key != "target_modules"
            if not missing and not all(isinstance(name, str) for name in _listed(value)):
                config.fail(key, "a string or a list of strings", value)
        layers = config.optional("layers_to_transform")
        if not all(type(layer) is int for layer in _listed(layers if layers is not None else [])):
            config.fail("layers_to_transform", "an integer or a list of integers", layers)
        patterns = [config.optional(key) or {} for key in ("rank_pattern", "alpha_pattern")]
        if not all(isinstance(pattern, dict) for pattern in patterns):
            config.fail("rank_pattern and alpha_pattern", "objects", patterns)
        self.path = config.path
        self.rank = config.integer("r", 8)
        self.alpha = config.number("lora_alpha", 8)
        self.ranks, self.alphas = patterns
        self.by_root = config.boolean("use_rslora", False)
        self.targets = selected["target_modules"]
        self.excluded = selected["exclude_modules"] or []
        self.layers = None if layers in (None, []) else _listed(layers)
        self.layers_patterns = _listed(config.optional("layers_pattern") or [])
        #: Whether each linear layer has a bias of B.
        self.has_bias = config.boolean("lora_bias", False)
        config.done(ADAPTER_FILE)

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

    def names(self, module: str) -> bool:
        """Return whether the settings select a module by its name."""
        return self.targets != "all-linear" and self._is_target(module)

    def _is_target(self, module: str) -> bool:
        """Return whether peft gives a module its values, as `check_target_module_exists` does."""
        if _matches(self.excluded, module) or not _matches(self.targets, module):
            return False
        if isinstance(self.targets, str) or self.layers is None:
            return True
        # Without a pattern, the first number in the name is the layer's.
        before = [rf"(?:^|.*?\.){pattern}" for pattern in self.layers_patterns] or [r".*?\.[^.]*"]
        numbers = (re.match(rf"{prefix}\.(\d+)\.", module) for prefix in before)
        return any(number is not None and int(number[1]) in self.layers for number in numbers)


def _matches(selection: str | list[str], module: str) -> bool:
    if isinstance(selection, str):
        return selection == "all-linear" or re.fullmatch(selection, module) is not None
    return any(f".{module}".endswith(f".{name}") for name in selection)


def refuse_adapter(folder: ConfigFolder) -> None:
    """Refuse an adapter of another model than an embedding model."""
    if folder.has(ADAPTER_FILE):
        raise UnsupportedModelError(
            f"The model has an adapter ({ADAPTER_FILE}); the compiler merges one of an embedding "
            f"model, or of a classifier whose base has the same labels. {MERGE}"
        )


def merged_tensors(folder: ConfigFolder) -> dict[str, StoredTensor]:
    """Return the tensors of a base with the adapter in the same folder."""
    try:
        return _merged(folder)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{error} {MERGE}") from error
    except re.error as error:
        raise SourceError(f"{folder.path / ADAPTER_FILE} has a wrong pattern: {error}.") from error


def _merged(folder: ConfigFolder) -> dict[str, StoredTensor]:
    settings = _Settings(folder.config(ADAPTER_FILE))
    path = folder.path / ADAPTER_WEIGHTS
    stored = modern_names(open_tensors(path))
    adapter = Weights(folder.path, tensors=stored)
    base = modern_names(stored_tensors(folder.path))
    layers, plain = dict[str, list[str]](), dict[str, str]()
    for name in stored:
        module, lora, tensor = name.removeprefix(PREFIX).rpartition(".lora_")
        if lora:
            layers.setdefault(module, []).append(tensor)
        else:
            plain[name] = tensor
    if not layers:
        raise UnsupportedModelError(
            f"{path} has no matrices of an adapter (lora_A and lora_B), so {ADAPTER_FILE} does not "
            f"describe it; found {some(stored)}."
        )
    merged = dict(base)
    for name, tensor in plain.items():
        replaced = _in_base(base, tensor.replace(".base_layer.", "."), path)
        if merged[replaced] is not base[replaced]:
            raise SourceError(f"{path} has {replaced} twice: {name} is the second.")
        merged[replaced] = _changed(base[replaced], adapter, name)
        module = tensor.rpartition(".")[0]
        wrapped = module in layers or settings.names(module)
        if wrapped and not module.endswith(".base_layer"):
            _check_copy(adapter, name, base[replaced])
    for module, suffixes in layers.items():
        weight = _in_base(merged, f"{module}.weight", path)
        names = EMBEDDING if set(suffixes) == set(EMBEDDING) else LINEAR
        expected = {*names, *((BIAS,) if settings.has_bias and names is LINEAR else ())}
        if set(suffixes) != expected:
            raise UnsupportedModelError(
                f"{path}: {module} must have {' and '.join(sorted(expected))}, as {ADAPTER_FILE} "
                f"says, or those of an embedding; found {', '.join(sorted(suffixes))}."
            )
        down, up = (f"{PREFIX}{module}.lora_{tensor}" for tensor in names)
        rank = adapter.shape(down)[0]
        scale = settings.scale(module, rank)
        shape = base[weight].shape
        rows, columns = shape if names is LINEAR else shape[::-1]
        _check_shape(adapter, down, (rank, columns))
        _check_shape(adapter, up, (rows, rank))
        turned = names is EMBEDDING
        merged[weight] = _sum(merged[weight], adapter, [up, down], scale, turned=turned)
        if BIAS in suffixes:
            bias = _in_base(merged, f"{module}.bias", path)
            added = f"{PREFIX}{module}.lora_{BIAS}"
            _check_shape(adapter, added, merged[bias].shape)
            merged[bias] = _sum(merged[bias], adapter, [added], scale)
    return merged


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _pattern(patterns: Iterable[str], module: str) -> str:
    """Return the first pattern that matches the end of a module's name, as peft looks for it."""
    return next(
        (pattern for pattern in patterns if re.match(rf"(.*\.)?({pattern})$", module)), module
    )


def _in_base(base: Mapping[str, StoredTensor], name: str, path: Path) -> str:
    """Return the base's name of a tensor: either may have a prefix of the model's class."""
    matches = [
        candidate
        for candidate in base
        if f".{candidate}".endswith(f".{name}") or f".{name}".endswith(f".{candidate}")
    ]
    if len(matches) != 1:
        raise SourceError(
            f"{path} does not fit its base: {name} must be one of the base's tensors; found "
            f"{', '.join(matches[:3]) or 'none of that name'}. If the base has the names of its "
            f"own code: {MERGE}"
        )
    return matches[0]


def _check_shape(adapter: Weights, name: str, shape: tuple[int, ...]) -> None:
    if adapter.shape(name) != shape:
        raise SourceError(
            f"{adapter.folder} does not fit its base: {name} must have the shape {list(shape)}; "
            f"found {list(adapter.shape(name))}."
        )


def _check_copy(adapter: Weights, name: str, base: StoredTensor) -> None:
    """Check that a tensor of a layer with an adapter is the base's.

    peft reads the tensors of such a layer from names with `base_layer`, and ignores others.
    """
    if not np.array_equal(adapter.take(name, *base.shape), base.read().astype(np.float32)):
        raise UnsupportedModelError(
            f"{adapter.folder / ADAPTER_WEIGHTS}: {name} is not the base's, in a layer that "
            "target_modules selects. peft ignores it: in such a layer it reads names with "
            "base_layer."
        )


def _changed(base: StoredTensor, adapter: Weights, name: str) -> StoredTensor:
    """Return the adapter's tensor in place of the base's."""
    _check_shape(adapter, name, base.shape)
    return replace(base, dtype="F32", read=lambda: adapter.take(name, *base.shape))


def _sum(
    base: StoredTensor, adapter: Weights, names: list[str], scale: float, *, turned: bool = False
) -> StoredTensor:
    """Return a tensor of the base plus the scaled product of the adapter's, or its transpose."""

    def read() -> npt.NDArray[np.float32]:
        matrix, *factors = (adapter.take(name, *adapter.shape(name)) for name in names)
        product = np.float32(scale) * functools.reduce(np.matmul, factors, matrix)
        return base.read().astype(np.float32) + (product.T if turned else product)

    return replace(base, dtype="F32", read=read)
