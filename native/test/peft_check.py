"""Does PEFT, over the Hugging Face form of a base, say what the worker says with the adapter it exported?

Needs torch==2.13.0 transformers==5.23.0 peft==0.21.2 gguf==0.19.0 safetensors==0.8.0 (CPU builds will do):

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.23.0 peft==0.21.2 gguf==0.19.0 safetensors==0.8.0
    venv/bin/python native/test/peft_check.py check build build/fixtures/tiny-*.gguf .cache/smollm2-135m-instruct-q4_1.gguf
    venv/bin/python native/test/peft_check.py names

`check` trains an adapter for a few steps on each model, exports it, and compares the log-probs of every token of a few rows: the
base's, PEFT's over it, and those of the merged models that the worker exports. Every base is dequantised to F32 on both sides.
A control that leaves q and k rows in llama.cpp's order must fail. `names` writes peft_names.json, the tensors that PEFT itself
saves, which export_test compares with.
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
RANK, ALPHA = 8, 16
BOUND = 1e-3  # nats


class Worker:
    """The trainer's wire, as protocol.md has it."""

    def __init__(self, executable):
        self.process = subprocess.Popen([executable], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.id = 0

    def __call__(self, verb, arrays=None, **fields):
        self.id += 1
        arrays = arrays or {}
        names = [{"name": name, "dtype": "f32" if value.dtype == np.float32 else "i32", "count": value.size} for name, value in arrays.items()]
        head = {"id": self.id, "verb": verb, **fields, **({"payload": names} if names else {})}
        self.process.stdin.write(json.dumps(head).encode() + b"\n" + b"".join(value.tobytes() for value in arrays.values()))
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if not answer["ok"]:
            raise RuntimeError(answer["error"])
        for array in answer.pop("payload", []):
            kind = np.float32 if array["dtype"] == "f32" else np.int32
            answer[array["name"]] = np.frombuffer(self.process.stdout.read(4 * array["count"]), kind)
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def metadata_of(reader):
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}


def llamas_rows(weights, heads):
    """llama.cpp's converter interleaves the halves of every head of q and k (LlamaModel.permute); this is the way back."""
    return weights.reshape(heads, weights.shape[0] // heads // 2, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


MODULES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
}
CLASSES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}


def module_name(name):
    if name in ("token_embd.weight", "output_norm.weight", "output.weight"):
        return {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}[name.split(".")[0]] + ".weight"
    layer, part, kind = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name).groups()
    return f"model.layers.{layer}.{MODULES[part]}.{kind}"


def tiny_model(path):
    """The Hugging Face form of a tiny GGUF, made by hand: its tensors, dequantised, under their own names."""
    reader = gguf.GGUFReader(path)
    meta = metadata_of(reader)
    a = meta["general.architecture"]
    make_config, make_model = CLASSES[a]
    tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
    factors = tensors.pop("rope_freqs.weight", np.float32(1))
    heads, kv_heads, width = meta[f"{a}.attention.head_count"], meta[f"{a}.attention.head_count_kv"], meta[f"{a}.embedding_length"]
    head = meta.get(f"{a}.attention.key_length", width // heads)
    model = make_model(make_config(
        vocab_size=tensors["token_embd.weight"].shape[0], hidden_size=width, intermediate_size=meta[f"{a}.feed_forward_length"],
        num_hidden_layers=meta[f"{a}.block_count"], num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head,
        rms_norm_eps=meta[f"{a}.attention.layer_norm_rms_epsilon"], max_position_embeddings=meta[f"{a}.context_length"],
        tie_word_embeddings="output.weight" not in tensors, attn_implementation="eager",
    ))
    state = {}
    for name, weights in tensors.items():
        if a == "llama" and ".attn_q." in name:
            weights = llamas_rows(weights, heads)
        if a == "llama" and ".attn_k." in name:
            weights = llamas_rows(weights, kv_heads)
        state[module_name(name)] = torch.from_numpy(weights.copy())
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    base, scale = meta.get(f"{a}.rope.freq_base", 10000.0), 1 / (meta.get(f"{a}.rope.scaling.factor", 0) or 1)
    model.model.rotary_emb.inv_freq = torch.from_numpy((base ** (-np.arange(0, head, 2) / head) * scale / factors).astype(np.float32))
    return model.eval()


def real_model(path):
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()


def logprobs_of(model, rows):
    """Log-probs of every token of a row but the first, row after row."""
    with torch.no_grad():
        parts = [torch.log_softmax(model(torch.tensor([row])).logits[0, :-1].double(), -1).gather(1, torch.tensor(row[1:])[:, None]) for row in rows]
    return torch.cat(parts)[:, 0].numpy()


def worker_logprobs(worker, adapter, rows):
    arrays = {"tokens": np.concatenate(rows).astype(np.int32), "row_lengths": np.array([len(row) for row in rows], np.int32),
              "prompt_lengths": np.ones(len(rows), np.int32)}
    said = worker("score", arrays, adapter=adapter)["logprobs"]
    firsts = np.cumsum([0] + [len(row) for row in rows[:-1]])
    return np.delete(said, firsts).astype(np.float64)


def train(worker, rows, steps, rate):
    weights = np.concatenate([[0.0] + [1.0] * (len(row) - 1) for row in rows])
    arrays = {"tokens": np.concatenate(rows).astype(np.int32), "row_lengths": np.array([len(row) for row in rows], np.int32),
              "weights": (weights / weights.sum()).astype(np.float32)}
    for _ in range(steps):
        worker("forward_backward", arrays, adapter="a")
        worker("optim_step", adapter="a", learning_rate=rate, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0, grad_clip_norm=1)


def with_swapped_rows(folder, to, heads, kv_heads):
    """The control: what the export would be, had it left q and k rows as they are in the GGUF."""
    tensors = load_file(folder / "adapter_model.safetensors")
    for name, value in tensors.items():
        for module, count in (("q_proj", heads), ("k_proj", kv_heads)):
            if name.endswith(f"{module}.lora_B.weight"):
                rows, rank = value.shape
                tensors[name] = np.ascontiguousarray(value.reshape(count, 2, rows // count // 2, rank).swapaxes(1, 2).reshape(rows, rank))
    to.mkdir()
    save_file(tensors, to / "adapter_model.safetensors", {"format": "pt"})
    (to / "adapter_config.json").write_bytes((folder / "adapter_config.json").read_bytes())


def check(build, path):
    meta = metadata_of(gguf.GGUFReader(path))
    tiny = path.name.startswith("tiny-")
    a = meta["general.architecture"]
    # The form made by hand below is of plain models: gemma3's norms and windows, and YaRN, are held against PyTorch in goldens/.
    if tiny and (a not in CLASSES or meta.get(f"{a}.rope.scaling.type") == "yarn"):
        print(f"not checked: {path.name}", flush=True)
        return True
    worker = Worker(build / "plumbline-trainer")
    opened = worker("open", path=str(path), threads=1, memory_bytes=0)
    # The same rows every time; those of a real model are text of a kind: rising numbers, of which every token is likely.
    draw = np.random.default_rng(5)
    rows = [draw.integers(3, opened["vocabulary"], n).tolist() if tiny else (np.arange(n) * 7 % 900 + 300).tolist() for n in (60, 33, 90, 9)]
    worker("adapter_create", adapter="a", rank=RANK, alpha=ALPHA, seed=1, targets=TARGETS)
    train(worker, rows, 20 if tiny else 6, 0.01 if tiny else 0.003)
    folder = Path(tempfile.mkdtemp())
    worker("export", adapter="a", path=str(folder / "peft"), format="peft", metadata={"plumbline.test": "peft"})
    base, aligned = worker_logprobs(worker, None, rows), worker_logprobs(worker, "a", rows)

    model = tiny_model(path) if tiny else real_model(path)
    result = {"model": path.name, "shift": np.abs(aligned - base).max(), "base": np.abs(logprobs_of(model, rows) - base).max()}
    result["peft"] = np.abs(logprobs_of(PeftModel.from_pretrained(model, folder / "peft"), rows) - aligned).max()
    failed = not (result["base"] <= BOUND and result["peft"] <= BOUND and result["shift"] > 100 * BOUND)
    if a == "llama":
        with_swapped_rows(folder / "peft", folder / "swapped", meta[f"{a}.attention.head_count"], meta[f"{a}.attention.head_count_kv"])
        model = tiny_model(path) if tiny else real_model(path)
        result["control"] = np.abs(logprobs_of(PeftModel.from_pretrained(model, folder / "swapped"), rows) - aligned).max()
        failed |= not result["control"] > BOUND
    for kind in ("f32", "f16", "bf16"):
        worker("export", adapter="a", path=str(folder / f"{kind}.gguf"), format="gguf_merged", weight_type=kind, metadata={})
        merged = Worker(build / "plumbline-trainer")
        merged("open", path=str(folder / f"{kind}.gguf"), threads=1, memory_bytes=0)
        difference = np.abs(worker_logprobs(merged, None, rows) - aligned)
        result[f"merged {kind}"], result[f"merged {kind} mean"] = difference.max(), difference.mean()
        merged.close()
    failed |= not result["merged f32"] <= BOUND
    worker.close()
    print(("FAILED " if failed else "") + ", ".join(f"{key} {value if isinstance(value, str) else f'{value:.1e}'}" for key, value in result.items()), flush=True)
    return not failed


def names():
    config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False)
    lora = LoraConfig(r=3, target_modules=[module.split(".")[1] for module in list(MODULES.values())[:7]] + ["lm_head"], task_type="CAUSAL_LM")
    folder = tempfile.mkdtemp()
    get_peft_model(LlamaForCausalLM(config), lora).save_pretrained(folder, save_embedding_layers=False)
    saved = (Path(folder) / "adapter_model.safetensors").read_bytes()
    header = json.loads(saved[8 : 8 + struct.unpack("<Q", saved[:8])[0]])
    shapes = {name: entry["shape"] for name, entry in sorted(header.items()) if name != "__metadata__"}
    (Path(__file__).parent / "peft_names.json").write_text(
        "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(shape)}" for name, shape in shapes.items()) + "\n}\n"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["names"]:
        names()
    elif len(sys.argv) > 3 and sys.argv[1] == "check":
        results = [check(Path(sys.argv[2]).resolve(), Path(path).resolve()) for path in sys.argv[3:]]
        sys.exit(0 if all(results) else 1)
    else:
        sys.exit(__doc__)
