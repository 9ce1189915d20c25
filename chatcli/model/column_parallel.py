"""Column-parallel layers for a CPU: MLX runs an operation on one core, so a product's columns go to several.

Each core has some of them, as each device has in Megatron-LM (Shoeybi et al. 2019, section 3). No column
depends on another, so the numbers stay the same.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from chatcli.model import device

# More cores were not tried.
MAX_CORES = 8
# Multiplications below which waiting for another core costs more than it does: 2 ms of one core.
MIN_MULTIPLICATIONS = 3 << 20

# The other cores' streams.
_streams: list[Any] = []


def cores() -> int:
    """How many cores to split a model over: 1 on a GPU, and on macOS, where MLX uses Apple's Accelerate."""
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
    """A layer's columns, cut for several cores. It is no child of the layer, whose weights are not copied."""

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
        """[..., inputs] to [..., columns], by `run` of the layer or, where that takes long, of all parts."""
        if x.size * self.count < MIN_MULTIPLICATIONS:
            return run(layer, x)
        products = [run(self.layers[0], x)]
        for part, stream in zip(self.layers[1:], _streams, strict=False):
            with mx.stream(stream):
                products.append(run(part, x))
        return mx.concatenate(products, axis=-1)


def _on_cores(base: type, method: str) -> type:
    """A class of such layers whose `method` multiplies on several cores."""
    run = getattr(base, method)

    def call(self: Any, x: mx.array) -> Any:
        return self.columns.product(x, run, self)

    return type(f"ColumnParallel{base.__name__}", (base,), {method: call})


# Exactly these: what derives from them may compute in another way.
COLUMN_PARALLEL = {
    nn.Linear: _on_cores(nn.Linear, "__call__"),
    nn.QuantizedLinear: _on_cores(nn.QuantizedLinear, "__call__"),
    # As the output layer, too.
    nn.Embedding: _on_cores(nn.Embedding, "as_linear"),
    nn.QuantizedEmbedding: _on_cores(nn.QuantizedEmbedding, "as_linear"),
}
