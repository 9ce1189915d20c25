"""The Qwen3.5 architecture in plain PyTorch, for training only."""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.pocket.configuration import Shape

CHUNK = 64


class Norm(nn.Module):
    """Root-mean-square norm whose weight is stored as its difference from one."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * (1 + self.weight)).to(x.dtype)


class GatedNorm(nn.Module):
    """Norm over one value head, then a silu gate."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
        return (wide * functional.silu(gate.float())).to(gate.dtype)


def unit(x: Tensor) -> Tensor:
    """x in float32 with its last axis scaled to length one."""
    x = x.float()
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def within(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
    """What each chunk knows of itself, from q, k, v: [B, H, N, CHUNK, size]; rest [B, H, T].

    Returns queries, keys, attention inside, the triangular system, its right side, what is kept.
    """
    beta = beta.reshape(*k.shape[:-1], 1)
    total = decay.reshape(k.shape[:-1]).cumsum(-1)
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
    between = (total[..., :, None] - total[..., None, :]).masked_fill(later, float("-inf")).exp()
    inside = (q @ k.mT) * between
    system = ((k * beta) @ k.mT) * between
    right = torch.cat([v * beta, k * beta * total.exp()[..., None]], -1)
    q = q * total.exp()[..., None]
    k = k * (total[..., -1:] - total).exp()[..., None]
    return q, k, inside, system, right, total[..., -1].exp()[..., None, None]


def chunked(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
    """What each chunk knows of itself, from what `delta_rule` is given."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    q, k, v = unit(q) * q.shape[-1] ** -0.5, unit(k), v.float()
    q, k, v = (x.unflatten(2, (x.shape[2] // CHUNK, CHUNK)) for x in (q, k, v))
    return within(q, k, v, decay.mT, beta.mT)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """The gated delta rule by chunks, in float32. q, k, v: [B, T, H, size]; rest [B, T, H].

    T is a multiple of CHUNK; q and k are brought to length one here; ``decay`` is a logarithm; returns
    [B, T, H, size].
    """
    with torch.autocast(q.device.type, enabled=False):
        sizes = [v.shape[-1], k.shape[-1]]
        q, k, inside, system, right, keep = chunked(q, k, v, decay, beta)
        new, seen = Solved.apply(system, right).split(sizes, -1)
        own = torch.eye(k.shape[-1], device=k.device) * keep - k.mT @ seen
        states = Scanned.apply(own, k.mT @ new)
        return (q @ states + inside @ (new - seen @ states)).flatten(2, 3).transpose(1, 2)


class Solved(torch.autograd.Function):
    """X of (I + L) X = R: [.., C, C], [.., C, D] to [.., C, D]. L is the matrix below its diagonal."""

    @staticmethod
    def forward(ctx: Any, system: Tensor, right: Tensor) -> Tensor:
        unit = torch.eye(system.shape[-1], device=system.device).expand_as(system)
        inverse = torch.linalg.solve_triangular(system, unit, upper=False, unitriangular=True)
        solved = inverse @ right
        ctx.save_for_backward(inverse, solved)
        return solved

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        inverse, solved = ctx.saved_tensors
        right = inverse.mT @ grad
        return -(right @ solved.mT).tril(-1), right


class Scanned(torch.autograd.Function):
    """The states before each chunk, S' = A S + B from zeros: [B, H, N, K, K], [B, H, N, K, V] to the latter.

    One product a chunk each way; all that does not depend on the chunk before is done for all chunks at once.
    """

    @staticmethod
    def forward(ctx: Any, change: Tensor, fresh: Tensor) -> Tensor:
        steps, added = change.flatten(0, 1), fresh.flatten(0, 1)
        states = torch.zeros_like(added)
        for n in range(states.shape[1] - 1):
            torch.baddbmm(added[:, n], steps[:, n], states[:, n], out=states[:, n + 1])
        ctx.save_for_backward(steps, states)
        return states.view_as(fresh)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        steps, states = ctx.saved_tensors
        grads = grad.flatten(0, 1)
        # What each chunk's own new state is worth to those after it.
        after = torch.zeros_like(grads)
        for n in range(states.shape[1] - 1, 0, -1):
            torch.baddbmm(grads[:, n], steps[:, n].mT, after[:, n], out=after[:, n - 1])
        return (after @ states.mT).view(*grad.shape[:-1], -1), after.view_as(grad)


class GatedDelta(nn.Module):
    """A gated-delta mixer: [B, T, D] to [B, T, D]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = (shape.linear_num_key_heads, shape.linear_num_value_heads)
        self.dims = (shape.linear_key_head_dim, shape.linear_value_head_dim)
        keys, values = (h * d for h, d in zip(self.heads, self.dims, strict=True))
        width, kernel = 2 * keys + values, shape.linear_conv_kernel_dim
        self.sizes = [keys, keys, values]
        self.conv1d = nn.Conv1d(width, width, kernel, groups=width, bias=False)
        self.in_proj_qkv = nn.Linear(shape.hidden_size, width, bias=False)
        self.in_proj_z = nn.Linear(shape.hidden_size, values, bias=False)
        self.in_proj_b = nn.Linear(shape.hidden_size, self.heads[1], bias=False)
        self.in_proj_a = nn.Linear(shape.hidden_size, self.heads[1], bias=False)
        self.dt_bias = nn.Parameter(torch.ones(self.heads[1]))
        self.A_log = nn.Parameter(torch.empty(self.heads[1]).uniform_(0.01, 16).log())
        self.norm = GatedNorm(self.dims[1], shape.rms_norm_eps)
        self.out_proj = nn.Linear(values, shape.hidden_size, bias=False)

    def inputs(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values [B, T, H, size] after the short convolution, the gates, and z.

        The gates are log decay and write strength, each [B, T, H] in float32.
        """
        qkv = self.in_proj_qkv(x)
        past = functional.pad(qkv, (0, 0, self.conv1d.kernel_size[0] - 1, 0))
        taps = self.conv1d.weight[:, 0].to(qkv.dtype)
        steps = x.shape[1]
        parts = [past[:, i : i + steps] * taps[:, i] for i in range(taps.shape[1])]
        q, k, v = functional.silu(sum(parts[1:], parts[0])).split(self.sizes, -1)
        repeat = self.heads[1] // self.heads[0]
        q, k = (t.unflatten(-1, (self.heads[0], -1)).repeat_interleave(repeat, 2) for t in (q, k))
        v = v.unflatten(-1, (self.heads[1], -1)).contiguous()
        speed = functional.softplus(self.in_proj_a(x).float() + self.dt_bias)
        decay = -self.A_log.float().exp() * speed
        return q, k, v, decay, self.in_proj_b(x).float().sigmoid(), self.in_proj_z(x)

    def finish(self, out: Tensor, z: Tensor) -> Tensor:
        """Gate, normalise and project the heads' output."""
        gate = z.unflatten(-1, (self.heads[1], -1))
        return self.out_proj(self.norm(out, gate).flatten(-2))


def rotate(x: Tensor, theta: float, dims: int) -> Tensor:
    """Rotary positions on the first ``dims`` of the last axis of x: [B, H, T, D]."""
    rates = theta ** (-torch.arange(0, dims, 2, device=x.device).float() / dims)
    angles = torch.arange(x.shape[2], device=x.device).float()[:, None] * rates
    cos, sin = angles.cos(), angles.sin()
    a, b, rest = x.float().split([dims // 2, dims // 2, x.shape[-1] - dims], -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1).to(x.dtype)


class Attention(nn.Module):
    """Causal attention with a gate on its output: [B, T, D] to [B, T, D]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        wide, narrow = shape.num_attention_heads, shape.num_key_value_heads
        self.q_proj = nn.Linear(shape.hidden_size, wide * shape.head_dim * 2, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, narrow * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, narrow * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(wide * shape.head_dim, shape.hidden_size, bias=False)
        self.q_norm = Norm(shape.head_dim, shape.rms_norm_eps)
        self.k_norm = Norm(shape.head_dim, shape.rms_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        wide, narrow = self.shape.num_attention_heads, self.shape.num_key_value_heads
        theta = self.shape.rope_theta
        dims = int(self.shape.head_dim * self.shape.partial_rotary_factor)
        q, gate = self.q_proj(x).unflatten(-1, (wide, -1)).chunk(2, -1)
        k = self.k_norm(self.k_proj(x).unflatten(-1, (narrow, -1)))
        v = self.v_proj(x).unflatten(-1, (narrow, -1))
        q, k, v = (t.transpose(1, 2) for t in (self.q_norm(q), k, v))
        k, v = (t.repeat_interleave(wide // narrow, 1) for t in (rotate(k, theta, dims), v))
        out = functional.scaled_dot_product_attention(rotate(q, theta, dims), k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(-2) * gate.flatten(-2).sigmoid())


class Feed(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Mixer and feed-forward, each behind a norm and around a residual.

    `rule` is the gated delta rule, of which `fused.py` has a faster one.
    """

    rule = staticmethod(delta_rule)

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        full = (index + 1) % shape.full_attention_interval == 0
        if full:
            self.self_attn = Attention(shape)
        else:
            self.linear_attn = GatedDelta(shape)
        self.full = full
        self.mlp = Feed(shape)
        self.input_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)
        self.post_attention_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        if self.full:
            return self.attended(x)
        *inputs, z = self.before(x)
        return self.after(x, self.rule(*inputs), z)

    def attended(self, x: Tensor) -> Tensor:
        """A layer of full attention."""
        return self.fed(x + self.self_attn(self.input_layernorm(x)))

    def before(self, x: Tensor) -> tuple[Tensor, ...]:
        """What the gated delta rule is given, and the gate of what it returns."""
        inputs: tuple[Tensor, ...] = self.linear_attn.inputs(self.input_layernorm(x))
        return inputs

    def after(self, x: Tensor, out: Tensor, z: Tensor) -> Tensor:
        """The layer's output, from that of the gated delta rule."""
        return self.fed(x + self.linear_attn.finish(out, z))

    def fed(self, x: Tensor) -> Tensor:
        """The feed-forward half."""
        return x + self.mlp(self.post_attention_layernorm(x))


class Network(nn.Module):
    """Token ids [B, T] to final hidden states [B, T, D]; T is a multiple of CHUNK."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape, i) for i in range(shape.num_hidden_layers))
        self.norm = Norm(shape.hidden_size, shape.rms_norm_eps)
        self.apply(start)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits of hidden states, through the tied embedding."""
        return functional.linear(hidden, self.embed_tokens.weight)


def start(module: nn.Module) -> None:
    """Initial weights."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
