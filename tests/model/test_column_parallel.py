"""Column-parallel layers: the same numbers from several CPU cores as from one."""

from __future__ import annotations

import io
from collections.abc import Callable

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten

from chatcli.model import column_parallel
from chatcli.model.column_parallel import MIN_MULTIPLICATIONS

INPUTS = 256
# No multiple of any number of cores.
COLUMNS = 641
ROWS = MIN_MULTIPLICATIONS // INPUTS // COLUMNS + 1
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(INPUTS, COLUMNS, bias=False),
    "with bias": lambda: nn.Linear(INPUTS, COLUMNS),
    "quantized": lambda: nn.QuantizedLinear(INPUTS, COLUMNS, bits=4),
    "embedding": lambda: nn.Embedding(COLUMNS, INPUTS),
    "quantized embedding": lambda: nn.QuantizedEmbedding(COLUMNS, INPUTS, bits=8),
}


class OneLayer(nn.Module):
    """A model of one layer, that may be an embedding as the output layer."""

    def __init__(self, layer: nn.Module, dtype: mx.Dtype) -> None:
        super().__init__()
        self.layer = layer
        self.set_dtype(dtype)

    def __call__(self, x: mx.array) -> mx.array:
        return getattr(self.layer, "as_linear", self.layer)(x)


@pytest.fixture(autouse=True)
def on_the_cpu() -> None:
    if mx.default_device().type != mx.cpu:
        pytest.skip("several cores are for CPUs")


@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_every_bit_is_as_from_one_core(name: str, dtype: mx.Dtype, cores: int) -> None:
    model = OneLayer(LAYERS[name](), dtype)
    few, many = (mx.random.normal((1, rows, INPUTS)).astype(dtype) for rows in (1, ROWS))
    expected = [model(few), model(many)]
    mx.eval(expected)
    column_parallel.split(model, cores)
    assert all(map(mx.array_equal, expected, [model(few), model(many)]))


@pytest.mark.parametrize(("rows", "products"), [(1, 1), (ROWS, 3)])
def test_only_large_products_are_split(rows: int, products: int) -> None:
    model = OneLayer(nn.Linear(INPUTS, COLUMNS, bias=False), mx.float32)
    column_parallel.split(model, 3)
    graph = io.StringIO()
    mx.export_to_dot(graph, model(mx.zeros((1, rows, INPUTS))))
    assert products == graph.getvalue().count('"Matmul"')


def test_weights_keep_their_names_and_their_memory() -> None:
    model = OneLayer(nn.Linear(INPUTS, COLUMNS), mx.float32)
    mx.eval(model.parameters())
    names, before = [name for name, _ in tree_flatten(model.parameters())], mx.get_active_memory()
    column_parallel.split(model, 2)
    mx.eval(model(mx.zeros((1, ROWS, INPUTS))))
    assert names == [name for name, _ in tree_flatten(model.parameters())]
    assert mx.get_active_memory() < before + 10_000


def test_a_layer_that_computes_in_another_way_stays() -> None:
    class Scaled(nn.Linear):
        def __call__(self, x: mx.array) -> mx.array:
            return 2 * super().__call__(x)

    model = OneLayer(Scaled(INPUTS, COLUMNS), mx.float32)
    column_parallel.split(model, 2)
    assert Scaled is type(model.layer)
