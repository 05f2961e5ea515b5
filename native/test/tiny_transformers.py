"""The tiny models as Transformers has them: its own classes, with the weights and sizes of a GGUF.

The models of transformers are the reference; only weights and configuration come from the file. make_goldens.py and peft_check.py
share this.
"""

import gguf
import numpy
import torch
import transformers

MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
GEMMA_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
}


class Gguf:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
        self.tensors = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).astype(numpy.float32)) for t in reader.tensors}
        self.offsets = {t.name: t.data_offset for t in reader.tensors}
        self.architecture = self.fields["general.architecture"]

    def get(self, name, otherwise=None):
        return self.fields.get(f"{self.architecture}.{name}", otherwise)


def rope_parameters(model):
    parameters = {"rope_type": "default", "rope_theta": model.get("rope.freq_base")}
    kind = model.get("rope.scaling.type")
    if kind:
        parameters |= {"rope_type": kind, "factor": model.get("rope.scaling.factor")}
    if kind == "yarn":
        parameters["original_max_position_embeddings"] = model.get("rope.scaling.original_context_length")
    return parameters


def windowed_layers(model, layers):
    """Of each layer whether it has a window. The pattern is flags, or the distance between layers that see everything."""
    if not model.get("attention.sliding_window"):
        return [False] * layers
    pattern = model.get("attention.sliding_window_pattern", 6)
    return [bool(flag) for flag in pattern] if isinstance(pattern, list) else [(i + 1) % pattern != 0 for i in range(layers)]


def config_of(model):
    heads, width, layers = model.get("attention.head_count"), model.get("embedding_length"), model.get("block_count")
    values = {
        "vocab_size": model.get("vocab_size"),
        "hidden_size": width,
        "intermediate_size": model.get("feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": model.get("attention.head_count_kv"),
        "head_dim": model.get("attention.key_length", width // heads),
        "max_position_embeddings": model.get("context_length"),
        "rms_norm_eps": model.get("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in model.tensors,
        "rope_parameters": rope_parameters(model),
        "attn_implementation": "eager",
    }
    if any(name.endswith(".bias") for name in model.tensors):
        values["attention_bias"] = True
    if model.architecture == "gemma3":
        values["layer_types"] = ["sliding_attention" if windowed else "full_attention" for windowed in windowed_layers(model, layers)]
        values["sliding_window"] = model.get("attention.sliding_window") or model.get("context_length")  # it wants one even where no layer has it
        values["query_pre_attn_scalar"] = values["head_dim"]
        values["rope_parameters"] = {
            "full_attention": values["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": model.get("rope.freq_base_swa", 10000.0)},
        }
    return CLASSES[model.architecture][0](**values)


def halves(rows, head):
    """Rows of llama's q and k as Transformers has them: GGUF holds the two halves of a head interleaved."""
    return rows.reshape(-1, head // 2, 2, rows.shape[-1]).transpose(1, 2).reshape(rows.shape)


def build(source, dtype):
    """The model, and by the name of its tensor every linear that an adapter may change: (layer, module's name, head size of permuted rows)."""
    config = config_of(source)
    # Built in the type, not converted: what a model computes of its config is then of that type too.
    torch.set_default_dtype(dtype)
    model = CLASSES[source.architecture][1](config).eval()
    torch.set_default_dtype(torch.float32)
    left = dict(source.tensors)
    head = config.head_dim
    shift = 1 if source.architecture == "gemma3" else 0  # its norms multiply by 1 + weight, and GGUF holds the sum

    def put(parameter, values):
        assert parameter.shape == values.shape, (parameter.shape, values.shape)
        parameter.data = values.to(dtype, copy=True)

    def put_norm(parameter, values):
        put(parameter, values.to(dtype) - shift)

    put(model.model.embed_tokens.weight, left.pop("token_embd.weight"))
    put_norm(model.model.norm.weight, left.pop("output_norm.weight"))
    if "output.weight" in left:
        put(model.lm_head.weight, left.pop("output.weight"))
    else:
        model.lm_head.weight = model.model.embed_tokens.weight
    if "rope_freqs.weight" in left:
        rotary = model.model.rotary_emb
        rotary.inv_freq = rotary.inv_freq / left.pop("rope_freqs.weight").to(dtype)
    norms = dict(GEMMA_NORMS if shift else NORMS) | (HEAD_NORMS if source.architecture in ("qwen3", "gemma3") else {})
    linears = {}
    for index, layer in enumerate(model.model.layers):
        for name, module in norms.items():
            put_norm(layer.get_submodule(module).weight, left.pop(f"blk.{index}.{name}.weight"))
        for name, module in MODULES.items():
            full = f"blk.{index}.{name}.weight"
            linear = layer.get_submodule(module)
            permuted = head if source.architecture == "llama" and name in ("attn_q", "attn_k") else None
            weights = left.pop(full)
            put(linear.weight, weights if permuted is None else halves(weights, head))
            if linear.bias is not None:
                bias = left.pop(f"blk.{index}.{name}.bias", torch.zeros(linear.out_features))
                put(linear.bias, bias if permuted is None else halves(bias[:, None], head)[:, 0])
            linears[full] = (layer, module, permuted)
    assert not left, f"tensors without a place: {list(left)}"
    return model, linears
