"""What Transformers computes of the F32 tiny models: log-probs and the gradient of every adapter tensor, in double precision.

The models of transformers are the reference; only their weights, their sizes and a LoRA beside every linear layer come from
here. golden_test.cpp holds the worker against the files that this writes.

    pip install torch==2.13.0 transformers==5.23.0 gguf==0.19.0 numpy==2.4.6
    python native/test/goldens/make_goldens.py build/fixtures native/test/goldens
"""

import json
import math
import sys
from pathlib import Path

import gguf
import numpy
import torch
import transformers

RANK, ALPHA, LENGTHS, SEED = 2, 3.0, (40, 25), 31
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
WORD = (1 << 64) - 1


def mix64(x):
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = ((x ^ (x >> shift)) * factor) & WORD
    return x ^ (x >> 31)


def uniform(name, count):
    """The worker's counter-based numbers in [0, 1), base/random.h: so that inputs need not be stored."""
    stream = 0xCBF29CE484222325
    for byte in name.encode():
        stream = ((stream ^ byte) * 0x100000001B3) & WORD
    key = mix64(mix64((SEED + 0x9E3779B97F4A7C15) & WORD) ^ ((stream * 0xD6E8FEB86659FD93 + 0x2545F4914F6CDD1D) & WORD))
    return numpy.array([(mix64((key + (i + 1) * 0x9E3779B97F4A7C15) & WORD) >> 11) * 2.0**-53 for i in range(count)])


class Gguf:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {tensor.name: torch.tensor(tensor.data.copy()).double() for tensor in reader.tensors}
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
    if model.architecture == "gemma3":
        every = model.get("attention.sliding_window_pattern", 6)
        values["layer_types"] = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]
        values["sliding_window"] = model.get("attention.sliding_window")
        values["query_pre_attn_scalar"] = values["head_dim"]
        values["rope_parameters"] = {
            "full_attention": values["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": model.get("rope.freq_base_swa", 10000.0)},
        }
    return CLASSES[model.architecture][0](**values)


def halves(rows, head):
    """Rows of llama's q and k as Transformers has them: GGUF holds the two halves of a head interleaved."""
    return rows.reshape(-1, head // 2, 2, rows.shape[-1]).transpose(1, 2).reshape(rows.shape)


class Adapted(torch.nn.Module):
    """W x + bias + alpha / rank · B (A x); A and B are leaves in GGUF's order of rows."""

    def __init__(self, linear, name, head):
        super().__init__()
        self.linear, self.head = linear, head
        draw = lambda part, shape: torch.tensor(uniform(f"{name}.{part}", math.prod(shape)) * 0.4 - 0.2).float().double().reshape(shape)
        self.a = torch.nn.Parameter(draw("lora_a", (RANK, linear.in_features)))
        self.b = torch.nn.Parameter(draw("lora_b", (linear.out_features, RANK)))

    def forward(self, x):
        b = self.b if self.head is None else halves(self.b, self.head)
        return self.linear(x) + ALPHA / RANK * (x @ self.a.T) @ b.T


def load(source):
    config = config_of(source)
    # Built in double, not converted: what a model computes of its config is then double too.
    torch.set_default_dtype(torch.float64)
    model = CLASSES[source.architecture][1](config).eval()
    left = dict(source.tensors)
    head = config.head_dim
    shift = 1 if source.architecture == "gemma3" else 0  # its norms multiply by 1 + weight, and GGUF holds the sum

    def put(parameter, values):
        assert parameter.shape == values.shape, (parameter.shape, values.shape)
        parameter.data = values.clone()

    put(model.model.embed_tokens.weight, left.pop("token_embd.weight"))
    put(model.model.norm.weight, left.pop("output_norm.weight") - shift)
    if "output.weight" in left:
        put(model.lm_head.weight, left.pop("output.weight"))
    else:
        model.lm_head.weight = model.model.embed_tokens.weight
    if "rope_freqs.weight" in left:
        rotary = model.model.rotary_emb
        rotary.inv_freq = rotary.inv_freq / left.pop("rope_freqs.weight")
    norms = dict(GEMMA_NORMS if shift else NORMS) | (HEAD_NORMS if source.architecture in ("qwen3", "gemma3") else {})
    adapters = {}
    for index, layer in enumerate(model.model.layers):
        for name, module in norms.items():
            put(layer.get_submodule(module).weight, left.pop(f"blk.{index}.{name}.weight") - shift)
        for name, module in MODULES.items():
            full = f"blk.{index}.{name}.weight"
            linear = layer.get_submodule(module)
            permuted = head if source.architecture == "llama" and name in ("attn_q", "attn_k") else None
            weights = left.pop(full)
            put(linear.weight, weights if permuted is None else halves(weights, head))
            if f"blk.{index}.{name}.bias" in left:
                put(linear.bias, left.pop(f"blk.{index}.{name}.bias"))
            adapters[full] = Adapted(linear, full, permuted)
            layer.set_submodule(module, adapters[full])
    assert not left, f"tensors without a place: {list(left)}"
    return model, adapters


def golden(path):
    source = Gguf(path)
    model, adapters = load(source)
    tokens = [int(u * 320) for u in uniform("tokens", sum(LENGTHS))]
    numbers, at = [], 0
    loss = 0
    for length in LENGTHS:
        row = torch.tensor([tokens[at : at + length]])
        at += length
        logprobs = torch.log_softmax(model(row, use_cache=False).logits[0, :-1], dim=-1).gather(1, row[0, 1:, None])[:, 0]
        loss = loss - logprobs.sum()
        numbers.append(logprobs.detach())
    loss.backward()
    index = [{"name": "logprobs", "count": sum(LENGTHS) - len(LENGTHS)}]
    for name, adapter in adapters.items():
        for part, tensor in (("lora_a", adapter.a), ("lora_b", adapter.b)):
            index.append({"name": f"{name}.{part}", "count": tensor.numel()})
            numbers.append(tensor.grad.reshape(-1))
    values = torch.cat(numbers).float().numpy().astype("<f4")
    return {"model": path.stem, "loss": float(loss.detach()), "tensors": index}, values


def main(fixtures, folder):
    entries = []
    for architecture in CLASSES:
        for kind in ("f32", "f32-untied"):
            name = f"tiny-{kind}" if architecture == "llama" else f"tiny-{architecture}-{kind}"
            entry, values = golden(Path(fixtures) / f"{name}.gguf")
            (Path(folder) / f"{name}.f32").write_bytes(values.tobytes())
            entries.append(entry)
            print(name, entry["loss"], values.size)
    made_with = {"torch": torch.__version__, "transformers": transformers.__version__, "gguf": "0.19.0"}
    content = {"made_with": made_with, "rank": RANK, "alpha": ALPHA, "seed": SEED, "row_lengths": LENGTHS, "models": entries}
    (Path(folder) / "goldens.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")


main(*sys.argv[1:])
