"""Column-parallel layers for a CPU: splits matrix products over cores, because MLX uses one per operation.

Each core computes some of the columns, as each device does in Megatron-LM (Shoeybi et al. 2019, section 3).
Columns do not depend on each other, so the results stay the same.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from chatcli.model import device

# More cores were not tested.
MAX_CORES = 8
# Below this many multiplications (2 ms of one core) waiting for another core costs more than it saves.
MIN_MULTIPLICATIONS = 3 << 20

# The streams of the other cores.
_streams: list[Any] = []


def cores() -> int:
    """How many cores to split a model over: 1 on a GPU and on macOS, where MLX uses Apple's Accelerate."""
    if mx.default_device().type != mx.cpu or sys.platform == "darwin":
        return 1
    return min(device.cpu_cores(), MAX_CORES)


def split(model: Any, cores: int) -> None:
    """Let every dense linear layer and tied embedding of a model use several cores.

    Layers are changed in place: a model may hold one in several places.
    """
    if cores == 1:
        return
    while len(_streams) < cores - 1:
        _streams.append(mx.new_thread_local_stream(mx.cpu))
    for _, layer in model.named_modules():
        if (column_parallel := COLUMN_PARALLEL.get(type(layer))) is not None:
            layer.columns = Columns(layer, cores)
            layer.__class__ = column_parallel


class Columns:
    """A layer's columns, divided among several cores. The layer's weights are not copied."""

    def __init__(self, layer: Any, cores: int) -> None:
        self.count = len(layer.weight)
        self.layers: list[Any] = []
        for core in range(cores):
            start, end = self.count * core // cores, self.count * (core + 1) // cores
            part = copy.copy(layer)
            # Columns are the rows of the weight, and of a quantized one's scales.
            part.update({name: array[start:end] for name, array in layer.parameters().items()})
            self.layers.append(part)

    def product(self, x: mx.array, run: Callable[[Any, mx.array], mx.array], layer: Any) -> mx.array:
        """[..., inputs] to [..., columns], by the layer's `run` or, if that takes long, by all parts."""
        if x.size * self.count < MIN_MULTIPLICATIONS:
            return run(layer, x)
        products = [run(self.layers[0], x)]
        for part, stream in zip(self.layers[1:], _streams, strict=False):
            with mx.stream(stream):
                products.append(run(part, x))
        return mx.concatenate(products, axis=-1)


def _on_cores(base: type, method: str) -> type:
    """A subclass of `base` whose `method` multiplies on several cores."""
    run = getattr(base, method)

    def call(self: Any, x: mx.array) -> Any:
        return self.columns.product(x, run, self)

    return type(f"ColumnParallel{base.__name__}", (base,), {method: call})


# Only these classes: a subclass may compute something else.
COLUMN_PARALLEL = {
    nn.Linear: _on_cores(nn.Linear, "__call__"),
    nn.QuantizedLinear: _on_cores(nn.QuantizedLinear, "__call__"),
    # A tied embedding is also the output layer.
    nn.Embedding: _on_cores(nn.Embedding, "as_linear"),
    nn.QuantizedEmbedding: _on_cores(nn.QuantizedEmbedding, "as_linear"),
}
