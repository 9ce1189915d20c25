"""The gated delta rule and whole layers as fused kernels, for training on a GPU.

The rule is flash-linear-attention's (github.com/fla-org/flash-linear-attention, fla-core), but for one
step backward: its kernel for that is wrong on Hopper with the Triton that some releases of torch bring
(its issue 640), so it is done here with matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._inductor import config as inductor
from torch.nn import functional
from triton.runtime.autotuner import Autotuner

from training.pocket.network import CHUNK, Layer


def fuse() -> None:
    """Make layers run fused from now on. The first steps compile."""
    limit_configurations(2)
    # A product of four columns is padded to eight where that measures faster, and its strides are then
    # those of the first batch.
    inductor.shape_padding = False
    from fla.ops.gated_delta_rule import chunk

    chunk.chunk_bwd_dqkwg = backward
    Layer.rule = staticmethod(partial(delta_rule, chunk.chunk_gated_delta_rule))
    for name in ("attended", "before", "after"):
        setattr(Layer, name, torch.compile(getattr(Layer, name), dynamic=True))


def delta_rule(
    kernel: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor
) -> Tensor:
    """As `network.delta_rule`, in the precision of its inputs."""
    scale = q.shape[-1] ** -0.5
    out: Tensor = kernel(q, k, v, decay, beta, scale=scale, use_qk_l2norm_in_kernel=True)[0]
    return out


def limit_configurations(most: int) -> None:
    """Let kernels that are declared later choose among so many launch configurations: each must compile."""
    declare = Autotuner.__init__

    def declared(self: Any, fn: Any, arg_names: Any, configs: Any, *args: Any, **more: Any) -> None:
        def unusual(config: Any) -> tuple[int, int, int]:
            sizes = [value for value in config.kwargs.values() if isinstance(value, int)]
            return (
                abs(config.num_warps - 4),
                abs((config.num_stages or 2) - 2),
                sum(abs(value - 64) for value in sizes),
            )

        declare(self, fn, arg_names, sorted(configs or [], key=unusual)[:most] or configs, *args, **more)

    Autotuner.__init__ = declared


def gated(
    q: Tensor, k: Tensor, dq: Tensor, dk: Tensor, ds: Tensor, h: Tensor, dh: Tensor, g: Tensor, scale: float
) -> tuple[Tensor, ...]:
    """Gradients before decay, decayed: of q, of k, of their products, and of the chunk's last decay."""
    last = g[..., -1:]
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    between = torch.exp2(torch.where(lower, g[..., :, None] - g[..., None, :], 0.0))
    dq = dq.float() * torch.exp2(g)[..., None] * scale
    dk = dk.float() * torch.exp2(last - g)[..., None]
    kept = (h.float() * dh.float()).sum((-1, -2)) * torch.exp2(last[..., 0])
    return (
        dq,
        dk,
        torch.where(lower, ds.float() * between, 0.0).mul(scale).to(k.dtype),
        kept + (dk * k.float()).sum((-1, -2)),
    )


def summed(
    q: Tensor, k: Tensor, dq: Tensor, dk: Tensor, more_q: Tensor, more_k: Tensor, last: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of q, k and the decay, from their parts."""
    dq, dk = dq + more_q.float(), dk + more_k.float()
    dg = (dq * q.float()).sum(-1) - (dk * k.float()).sum(-1)
    return dq.to(q.dtype), dk.to(k.dtype), functional.pad(last[..., None], (CHUNK - 1, 0)) + dg


# Compiled when they are first called.
fused_gated: Any = torch.compile(gated, dynamic=True)
fused_summed: Any = torch.compile(summed, dynamic=True)


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    h: Tensor,
    dh: Tensor,
    w: Tensor,
    g: Tensor,
    dv: Tensor,
    scale: float,
    **_: Any,
) -> tuple[Tensor, ...]:
    """The gradients of q, k, w and g of every chunk: [B, T, H, size], of g [B, T, H].

    h and dh are the state before each chunk and the gradient of that after it, [B, N, H, K, V]; g is the
    sum of decays within a chunk, a logarithm to base 2.
    """

    def split(x: Tensor) -> Tensor:
        return x.unflatten(1, (-1, CHUNK)).transpose(2, 3).contiguous()

    def joined(x: Tensor) -> Tensor:
        return x.transpose(2, 3).flatten(1, 2).contiguous()

    kind = k.dtype
    q, k, v, do, dv = (split(x.to(kind)) for x in (q, k, v, do, dv))
    state, later = h.to(kind).mT, dh.to(kind).mT
    dq, dk, ds, last = fused_gated(q, k, do @ state, v @ later, do @ v.mT, h, dh, split(g), scale)
    dq, dk, dg = fused_summed(q, k, dq, dk, ds @ k, ds.mT @ q, last)
    return joined(dq), joined(dk), joined(-(dv @ state)).to(w.dtype), joined(dg)
