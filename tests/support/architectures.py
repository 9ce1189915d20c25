"""Every architecture of mlx-lm that can be built small: its tiny config, and the model itself.

A config is COMMON with the architecture's own changes. COMMON spells the usual names of every
family; mlx-lm's `from_dict` takes those that it knows. Windows hold 24 tokens, so that a prompt of
150 goes round them several times.

Left out: bitnet and muse_spark (they need Metal), olmo (needs ai2-olmo), phi3small (mlx-lm 0.32.2
gives NaN beyond a block of 64 tokens), phixtral (its output layer has 51200 rows whatever the
config says), prism_hadamard_qwen35 (packed 2-bit weights of real sizes only).
"""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten

LAYERS = 4
WINDOW = 24
VOCABULARY = 128
# Token ids of a prompt for any of them.
PROMPT = [1 + (number * 37 + number**2 // 3) % (VOCABULARY - 1) for number in range(150)]
# A local-then-global pattern of layers, under the names that configs use for it.
SLIDING = ["sliding_attention", "full_attention"] * 2
MIXED = ["linear_attention", "full_attention"] * 2
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
ROPE_BY_LAYER = {"sliding_attention": ROPE, "full_attention": ROPE}
YARN = {
    "type": "yarn",
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 64,
}
GRANITE = {
    "logits_scaling": 1.0,
    "attention_multiplier": 0.25,
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
}
INDEXER = {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 20}
MINICPM = {"dim_model_base": 32, "scale_depth": 1.4, "scale_emb": 2.0}
LINEAR_MOE = {"layer_group_size": 2, "group_norm_size": 1, "num_key_value_heads": 4}
KIMI = {
    "linear_attn_config": {
        "num_heads": 4,
        "head_dim": 16,
        "kda_layers": [1, 3],
        "full_attn_layers": [2, 4],
        "short_conv_kernel_size": 4,
        "gate_lower_bound": -5.0,
    },
    "model_max_length": 1024,
    "num_experts_per_token": 2,
}
LFM2 = {
    "layer_types": ["conv", "full_attention"] * 2,
    "block_dim": 64,
    "block_ff_dim": 96,
    "block_multiple_of": 16,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False,
}
LONGCAT = {
    "attention_method": "MLA",
    "zero_expert_type": "identity",
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 32,
    "moe_topk": 2,
    "zero_expert_num": 2,
    "num_layers": 2,
    "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True,
}
LOW_RANK = {
    "a_low_rank_dim": 8,
    "v_low_rank_dim": 8,
    "gate_low_rank_dim": 8,
    "decay_low_rank_dim": 8,
}
GEMMA4 = {
    "num_key_value_heads": 1,
    "global_head_dim": 32,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": VOCABULARY,
    "num_experts": None,
}

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
    "max_position_embeddings": 1024,
    # Sizes.
    "hidden_size": 64,
    "n_embd": 64,
    "intermediate_size": 96,
    "n_inner": 96,
    "head_dim": 16,
    "num_hidden_layers": LAYERS,
    "num_layers": LAYERS,
    "n_layers": LAYERS,
    "n_layer": LAYERS,
    "num_attention_heads": 4,
    "n_heads": 4,
    "n_head": 4,
    "num_key_value_heads": 2,
    "n_positions": 1024,
    "n_ctx": 1024,
    # Norms, positions and biases.
    "rms_norm_eps": 1e-5,
    "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "partial_rotary_factor": 0.5,
    "attention_bias": False,
    "mlp_bias": False,
    "use_bias": False,
    "use_qk_norm": True,
    # Experts.
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "moe_intermediate_size": 32,
    "shared_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "norm_topk_prob": True,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.0,
    "mlp_only_layers": [],
    "decoder_sparse_step": 1,
    # Latent attention.
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    # Windows.
    "sliding_window": WINDOW,
    "sliding_window_size": WINDOW,
    "attention_window_size": WINDOW,
    "sliding_window_pattern": 2,
    "layer_types": SLIDING,
    # Recurrent layers.
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
    "conv_bias": False,
    "conv_L_cache": 3,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "state_size": 16,
    "ssm_state_size": 16,
    "n_groups": 1,
    "time_step_rank": 8,
    "mamba_d_conv": 4,
    "mamba_d_state": 16,
    "mamba_expand": 2,
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_ssm": 64,
    "mamba_n_groups": 1,
    "mamba_proj_bias": False,
    "mamba_conv_bias": True,
}

# What each architecture needs beside or instead of COMMON.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Klear": {},
    "afm7": {"hidden_dim": 64, "num_kv_reuse_layers": 2, "num_heads": 4, "num_kv_heads": 2},
    "afmoe": {},
    "apertus": {"post_norm": True, "qk_norm": True},
    "baichuan_m1": {"sliding_window_layers": [0, 2], "conv_window": 2},
    "bailing_hybrid": LINEAR_MOE,
    "bailing_moe": {},
    "bailing_moe_linear": LINEAR_MOE,
    "bailing_moe_v3": {"layer_group_size": 2, "moe_shared_expert_intermediate_size": 32},
    "cohere": {"logit_scale": 1.0},
    "cohere2": {"logit_scale": 1.0},
    "dbrx": {
        "d_model": 64,
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
    },
    "deepseek": {},
    "deepseek_v2": {"rope_scaling": YARN},
    "deepseek_v3": {"rope_scaling": YARN},
    "deepseek_v32": {**INDEXER, "rope_scaling": YARN},
    "deepseek_v41": {
        **INDEXER,
        "o_groups": 2,
        "o_lora_rank": 16,
        "rms_norm_eps": 1e-6,
        "compress_ratios": [0, 4, 4, 1],
        "kv_source_layer_ids": [1, 3],
        "index_source_layer_ids": [1, 3],
    },
    "dots1": {},
    "ernie4_5": {},
    "ernie4_5_moe": {},
    "exaone": {},
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {"is_moe_layer": [False, True, True, True]},
    "falcon_h1": {},
    "gemma": {},
    "gemma2": {},
    "gemma3": {},
    "gemma3_text": {},
    "gemma3n": {
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 16,
        "rope_local_base_freq": 1000.0,
        "final_logit_softcapping": 30.0,
        "activation_sparsity_pattern": [0.5] * LAYERS,
        "altup_num_inputs": 2,
        "altup_coef_clip": 1.0,
        "altup_correct_scale": True,
        "altup_active_idx": 0,
        "laurel_rank": 8,
    },
    "gemma4": GEMMA4,
    "gemma4_text": GEMMA4,
    "glm": {},
    "glm4": {},
    "glm4_moe": {},
    "glm4_moe_lite": {},
    "glm_moe_dsa": {
        **INDEXER,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "moe_layer_freq": 1,
        "rope_parameters": ROPE,
    },
    "gpt2": {},
    "gpt_bigcode": {},
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.5},
    "gpt_oss": {},
    "gptj": {"rotary_dim": 8},
    "granite": GRANITE,
    "granitemoe": GRANITE,
    "granitemoehybrid": {**GRANITE, "layer_types": ["mamba", "attention"] * 2},
    "helium": {},
    "hunyuan": {
        "moe_topk": 2,
        "num_shared_expert": 1,
        "use_mixed_mlp_moe": True,
        "use_cla": True,
        "cla_share_factor": 2,
        "rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"},
    },
    "hunyuan_v1_dense": {},
    "internlm2": {},
    "internlm3": {},
    "iquestloopcoder": {"loop_window_size": WINDOW},
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
    },
    "kimi_k25": {},
    "kimi_k3": {**KIMI, "activation_situ_beta": 4.0},
    "kimi_linear": KIMI,
    "kimi_vl": {},
    "laguna": {},
    "lfm2": LFM2,
    "lfm2-vl": LFM2,
    "lfm2_moe": {**LFM2, "use_expert_bias": True, "num_dense_layers": 1},
    "lille-130m": {"block_size": 1024, "n_kv_heads": 2},
    "llama": {},
    "llama4": {
        "attention_chunk_size": WINDOW,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "intermediate_size_mlp": 96,
    },
    "llama4_text": {"intermediate_size_mlp": 96, "no_rope_layers": [1, 1, 1, 0]},
    "longcat_flash": LONGCAT,
    "longcat_flash_ngram": {**LONGCAT, "ngram_vocab_size_ratio": 3},
    "mamba": {},
    "mamba2": {"num_heads": 8, "time_step_limit": [0.001, 100.0]},
    "mellum": {"rope_parameters": ROPE_BY_LAYER},
    "mimo": {},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [0, 1, 0, 1],
        "moe_layer_freq": [0, 1, 0, 1],
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "layernorm_epsilon": 1e-5,
        "swa_rope_theta": 1000.0,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 16,
        "swa_v_head_dim": 16,
    },
    "minicpm": MINICPM,
    "minicpm3": {**MINICPM, "rope_scaling": YARN},
    "minimax": {"rotary_dim": 8},
    "minimax_m3_vl": {
        "layer_types": ["full_attention", "sparse_attention"] * 2,
        "dense_intermediate_size": 96,
        "index_n_heads": 2,
        "index_head_dim": 16,
        "index_block_size": 8,
        "index_topk_blocks": 3,
    },
    "ministral3": {"rope_parameters": YARN},
    "mistral3": {},
    "mistral4": {"rope_parameters": YARN},
    "mixtral": {},
    "muse_glimmer": {},
    "nanbeige": {"num_loops": 2},
    "nanochat": {},
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {
        "block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.3}},
            {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.3}},
            {"attention": {"n_heads_in_group": 1}, "ffn": {"replace_with_linear": True}},
            {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 1.3}},
        ],
    },
    "nemotron_h": {
        "hybrid_override_pattern": ["M", "*", "E", "M", "-"],
        "moe_shared_expert_intermediate_size": 32,
    },
    "olmo2": {},
    "olmo3": {},
    "olmo_hybrid": {"linear_allow_neg_eigval": True, "layer_types": MIXED},
    "olmoe": {},
    "openelm": {
        "num_transformer_layers": LAYERS,
        "model_dim": 64,
        "ffn_dim_divisor": 16,
        "num_query_heads": [4, 4, 2, 4],
        "num_kv_heads": [2, 2, 1, 4],
        "ffn_multipliers": [1.0, 1.5, 2.0, 1.0],
    },
    "phi": {},
    "phi3": {},
    "phimoe": {
        "rope_scaling": {
            "short_factor": [1.0] * 8,
            "long_factor": [1.0] * 8,
            "short_mscale": 1.0,
            "long_mscale": 1.0,
        }
    },
    "pixtral": {},
    "plamo": {"n_shared_head": 2},
    "plamo2": {"hidden_size_per_head": 16},
    "plamo3": {},
    "qwen": {"kv_channels": 16},
    "qwen2": {},
    "qwen2_moe": {},
    "qwen2_vl": {},
    "qwen3": {},
    "qwen3_5": {},
    "qwen3_5_moe": {},
    "qwen3_moe": {},
    "qwen3_next": {},
    "qwen3_vl": {},
    "qwen3_vl_moe": {},
    "recurrent_gemma": {
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "block_types": ["recurrent", "attention"],
    },
    "rwkv7": LOW_RANK,
    "seed_oss": {},
    "smollm3": {},
    "solar_open": {},
    "spark2_5": {"rope_parameters": ROPE_BY_LAYER},
    "stablelm": {"use_qkv_bias": True},
    "starcoder2": {},
    "step3p5": {
        "num_attention_groups": 2,
        "moe_top_k": 2,
        "share_expert_dim": 32,
        "moe_layers_enum": "1,2,3",
    },
    "talkie": {},
    "telechat3": {},
    "youtu_llm": {},
}
# The classes in an architecture's cache, nested ones too. Those not named here have KVCache only.
CACHES = {
    "KVCache RotatingKVCache": [
        "afmoe",
        "cohere2",
        "exaone4",
        "exaone_moe",
        "gemma3",
        "gemma3_text",
        "gemma3n",
        "gemma4",
        "gemma4_text",
        "gpt_oss",
        "iquestloopcoder",
        "laguna",
        "llama",
        "mellum",
        "mimo_v2_flash",
        "ministral3",
        "muse_glimmer",
        "olmo3",
        "plamo3",
        "spark2_5",
        "step3p5",
    ],
    "ChunkedKVCache KVCache": ["llama4"],
    "CacheList KVCache": ["deepseek_v32", "glm_moe_dsa", "longcat_flash", "minimax_m3_vl"],
    "ArraysCache": ["mamba", "mamba2", "rwkv7"],
    "ArraysCache RotatingKVCache": ["recurrent_gemma"],
    "ArraysCache KVCache": [
        "bailing_hybrid",
        "bailing_moe_linear",
        "bailing_moe_v3",
        "granitemoehybrid",
        "jamba",
        "kimi_k3",
        "kimi_linear",
        "lfm2",
        "lfm2-vl",
        "lfm2_moe",
        "nemotron_h",
        "olmo_hybrid",
        "plamo2",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_next",
    ],
    "ArraysCache CacheList KVCache": ["falcon_h1", "longcat_flash_ngram"],
    "ArraysCache CacheList KVCache RotatingKVCache": ["baichuan_m1"],
    "LayerCache": ["deepseek_v41"],
}

# With most seeds a small random model says something; with the usual one these say one word.
SEEDS = {"cohere": 2, "phi": 2}


def caches(name: str) -> set[str]:
    """The classes that an architecture's cache is made of."""
    named = (classes for classes, names in CACHES.items() if name in names)
    return set(next(named, "KVCache").split())


def config(name: str, **changes: Any) -> dict[str, Any]:
    """The whole config of one architecture; those with a text model inside read `text_config`."""
    flat = {**COMMON, **ARCHITECTURES[name], **changes, "model_type": name}
    return {**flat, "text_config": dict(flat)}


def build(name: str, seed: int | None = None, **changes: Any) -> Any:
    """A random model, the same for the same seed, whose logits differ from token to token."""
    module = importlib.import_module(f"mlx_lm.models.{name}")
    mx.random.seed(SEEDS.get(name, 7) if seed is None else seed)
    model = module.Model(module.ModelArgs.from_dict(config(name, **changes)))
    model.eval()
    weights = [(path, _livelier(path, value)) for path, value in tree_flatten(model.parameters())]
    model.update(tree_unflatten(weights))
    mx.eval(model.parameters())
    return model


def _livelier(path: str, value: mx.array) -> mx.array:
    """Larger than an initial weight, and never all zero; decay rates stay what they are.

    Embeddings stay small, or a model that ties them to its output repeats the last token.
    """
    if not mx.issubdtype(value.dtype, mx.floating) or "A_log" in path:
        return value
    noise = mx.random.normal(value.shape).astype(value.dtype) * 0.05
    return value * (3 if value.ndim > 1 and "embed" not in path else 1) + noise
