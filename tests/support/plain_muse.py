"""Muse Spark without Metal: mlx-lm's own model, with its fused kernels written out.

It is copied into a model's folder as the code that comes with it.
"""

import mlx.core as mx
import mlx_lm.models.muse_spark as muse
from mlx_lm.models.muse_spark import Model, ModelArgs

__all__ = ["Model", "ModelArgs"]
WIDE = mx.float32


def _normed(x, eps):
    wide = x.astype(WIDE)
    return wide * mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True) + eps)


def qk_norm(qkvg, *, n_heads, n_kv_heads, head_dim, eps, query_scale):
    heads = qkvg.reshape(*qkvg.shape[:-1], -1, head_dim)
    normed = _normed(heads[..., : n_heads + n_kv_heads, :], eps).astype(qkvg.dtype)
    queries, keys = normed[..., :n_heads, :], normed[..., n_heads:, :]
    return [(queries.astype(WIDE) * query_scale).astype(qkvg.dtype), keys]


def qk_norm_rope(qkvg, *, rope_base, offset, **norm):
    def turned(x):
        by_head = x.transpose(0, 2, 1, 3)
        done = mx.fast.rope(by_head, x.shape[-1], traditional=True, base=rope_base, scale=1.0, offset=offset)
        return done.transpose(0, 2, 1, 3)

    return [turned(x) for x in qk_norm(qkvg, **norm)]


def rms_norm_sigmoid_gate(x, gate, *, eps):
    batch, heads, length, size = x.shape
    normed = _normed(x, eps).transpose(0, 2, 1, 3).reshape(batch, length, heads * size)
    return (normed * mx.sigmoid(gate.astype(WIDE))).astype(x.dtype)


def expert_routing(logits, bias, *, top_k, multiplier, score_eps, route_scale):
    scores = mx.sigmoid(logits * multiplier)
    chosen = mx.argsort(-(scores + bias), axis=-1)[..., :top_k]
    weights = mx.take_along_axis(scores, chosen, axis=-1)
    return [chosen, weights / (weights.sum(-1, keepdims=True) + score_eps) * route_scale]


def post_expert_norm_combine(experts, weights, *, norm_weight, eps):
    normed = _normed(experts.astype(WIDE) * norm_weight, eps)
    return (normed * weights[..., None]).sum(axis=-2).astype(experts.dtype)


def pre_norm(stream, norm, *, dtype):
    return (_normed(stream, norm.eps) * norm.weight).astype(dtype)


def norm_add_norm(branch, stream, *, alpha, beta, post_weight, post_eps, next_norm):
    if post_weight is not None:
        branch = post_weight.astype(branch.dtype) * branch
    added = alpha * stream + beta * _normed(branch, post_eps).astype(branch.dtype)
    return added, None if next_norm is None else pre_norm(added, next_norm, dtype=branch.dtype)


if not mx.metal.is_available():
    for kernel in (
        qk_norm,
        qk_norm_rope,
        rms_norm_sigmoid_gate,
        expert_routing,
        post_expert_norm_combine,
        norm_add_norm,
        pre_norm,
    ):
        setattr(muse, kernel.__name__, kernel)
