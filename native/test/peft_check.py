"""Does PEFT, over the Hugging Face form of a base, say what the worker says with the adapter it exported?

Needs torch==2.13.0 transformers==5.23.0 peft==0.21.2 gguf==0.19.0 safetensors==0.8.0 (CPU builds will do):

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.23.0 peft==0.21.2 gguf==0.19.0 safetensors==0.8.0
    venv/bin/python native/test/peft_check.py check build build/fixtures/tiny-*.gguf .cache/smollm2-135m-instruct-q4_1.gguf
    venv/bin/python native/test/peft_check.py names

`check` trains an adapter for a few steps on each model, exports it, and compares the log-probs of every token of a few rows: the
base's, PEFT's over it, and those of the merged models that the worker exports. Activations are compared likewise, of every layer: the
residual stream after it and what its two matrices that write to the stream read, as shares of their largest value. Every base is dequantised to F32 on both sides. The
tiny models have every form that the worker takes: biases, norms of heads, post-norms, windows, linear scaling, YaRN, an adapted head,
and factors of pairs, once more as Transformers makes them for Llama 3. Each is checked once more with an adapter of all layers but the first. A control that leaves q and k rows in llama.cpp's order must
fail. `names` writes peft_names.json, the tensors that PEFT itself saves, which export_test compares with.
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file, save_file
from tiny_transformers import MODULES, Gguf, build, config_of
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

TARGETS = list(MODULES)
RANK, ALPHA = 8, 16
BOUND = 1e-3  # nats
ACTIVATION_BOUND = 1e-4  # of the largest value of a layer's stream


class Refused(Exception):
    """What the worker said to a request."""


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
            raise Refused(answer["error"]["message"])
        for array in answer.pop("payload", []):
            kind = np.float32 if array["dtype"] == "f32" else np.int32
            answer[array["name"]] = np.frombuffer(self.process.stdout.read(4 * array["count"]), kind)
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def with_llama3_factors(path, folder):
    """A llama whose factors of pairs are those of Llama 3, as Transformers computes them; and its parameters."""
    parameters = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128}
    source = Gguf(path)
    config = config_of(source)
    config.rope_parameters = parameters
    stretched, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 10000.0 ** (-torch.arange(0, config.head_dim, 2) / config.head_dim)
    factors = (plain / stretched).to(torch.float32)
    assert (factors == 1).any() and (factors > 7).any(), factors
    copy = folder / "tiny-llama3.gguf"
    content = bytearray(path.read_bytes())
    at = source.offsets["rope_freqs.weight"]
    content[at : at + 4 * factors.numel()] = factors.numpy().astype("<f4").tobytes()
    copy.write_bytes(content)
    return copy, stretched


def tiny_model(path, frequencies=None):
    """frequencies: what Transformers says they are, where the file has only their factors."""
    source = Gguf(path)
    model, _ = build(source, torch.float32)
    if frequencies is not None:
        model.model.rotary_emb.inv_freq = frequencies / source.get("rope.scaling.factor", 1)
    return model


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


STREAMS = ("residual", "attn_output", "ffn_down")


def worker_activations(worker, adapter, row, layers):
    """By stream [layers, tokens, width]."""
    everything = np.arange(len(row), dtype=np.int32)
    arrays = {"tokens": np.array(row, np.int32), "row_lengths": np.array([len(row)], np.int32), "places": everything, "groups": everything}
    said = worker("activations", arrays, adapter=adapter, layers=list(range(layers)), streams=list(STREAMS))
    return [said[stream].reshape(layers, len(row), -1) for stream in STREAMS]


def watched(model):
    """What Transformers' modules give and read from now on, by layer: filled anew by each pass."""
    seen = {stream: {} for stream in STREAMS}

    def keep(stream, index, value):
        seen[stream][index] = (value[0] if isinstance(value, tuple) else value)[0].detach().numpy().copy()

    for index, layer in enumerate(model.model.layers):
        layer.register_forward_hook(lambda _, __, given, index=index: keep("residual", index, given))
        layer.self_attn.o_proj.register_forward_pre_hook(lambda _, given, index=index: keep("attn_output", index, given[0]))
        layer.mlp.down_proj.register_forward_pre_hook(lambda _, given, index=index: keep("ffn_down", index, given[0]))
    return seen


def activation_error(seen, model, row, ours):
    with torch.no_grad():
        model(torch.tensor([row]))
    errors = []
    for stream, values in zip(STREAMS, ours):
        for index, own in enumerate(values):
            theirs = seen[stream][index].reshape(own.shape)
            errors.append(np.abs(own - theirs).max() / np.abs(theirs).max())
    return max(errors)


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


def check(build_folder, path, llama3=False, first_layer=0):
    folder = Path(tempfile.mkdtemp())
    path, frequencies = with_llama3_factors(path, folder) if llama3 else (path, None)
    meta = Gguf(path)
    tiny = path.name.startswith("tiny-")
    transformers_model = (lambda: tiny_model(path, frequencies)) if tiny else (lambda: real_model(path))
    worker = Worker(build_folder / "plumbline-trainer")
    opened = worker("open", path=str(path), threads=1, memory_bytes=0, device="cpu")
    # The same rows every time; those of a real model are text of a kind: rising numbers, of which every token is likely.
    draw = np.random.default_rng(5)
    rows = [draw.integers(3, opened["vocabulary"], n).tolist() if tiny else (np.arange(n) * 7 % 900 + 300).tolist() for n in (60, 33, 90, 9)]
    worker("adapter_create", adapter="a", rank=RANK, alpha=ALPHA, seed=1, targets=TARGETS + ([] if opened["tied"] else ["output"]), first_layer=first_layer)
    train(worker, rows, 20 if tiny else 6, 0.01 if tiny else 0.003)
    worker("export", adapter="a", path=str(folder / "peft"), format="peft", metadata={"plumbline.test": "peft"})
    base, aligned = worker_logprobs(worker, None, rows), worker_logprobs(worker, "a", rows)
    ours = [worker_activations(worker, adapter, rows[1], opened["layers"]) for adapter in (None, "a")]

    model = transformers_model()
    seen = watched(model)
    result = {"model": path.name, "first layer": str(first_layer), "shift": np.abs(aligned - base).max(), "base": np.abs(logprobs_of(model, rows) - base).max()}
    result["activations"] = activation_error(seen, model, rows[1], ours[0])
    peft = PeftModel.from_pretrained(model, folder / "peft")
    result["peft"] = np.abs(logprobs_of(peft, rows) - aligned).max()
    result["activations with adapter"] = activation_error(seen, peft, rows[1], ours[1])
    failed = not (result["base"] <= BOUND and result["peft"] <= BOUND and result["shift"] > 100 * BOUND)
    failed |= not max(result["activations"], result["activations with adapter"]) <= ACTIVATION_BOUND
    if meta.architecture == "llama":
        with_swapped_rows(folder / "peft", folder / "swapped", meta.get("attention.head_count"), meta.get("attention.head_count_kv"))
        result["control"] = np.abs(logprobs_of(PeftModel.from_pretrained(transformers_model(), folder / "swapped"), rows) - aligned).max()
        failed |= not result["control"] > BOUND
    for kind in ("f32", "f16", "bf16"):
        worker("export", adapter="a", path=str(folder / f"{kind}.gguf"), format="gguf_merged", weight_type=kind, metadata={})
        merged = Worker(build_folder / "plumbline-trainer")
        merged("open", path=str(folder / f"{kind}.gguf"), threads=1, memory_bytes=0, device="cpu")
        difference = np.abs(worker_logprobs(merged, None, rows) - aligned)
        result[f"merged {kind}"], result[f"merged {kind} mean"] = difference.max(), difference.mean()
        merged.close()
    failed |= not result["merged f32"] <= BOUND
    worker.close()
    print(("FAILED " if failed else "") + ", ".join(f"{key} {value if isinstance(value, str) else f'{value:.1e}'}" for key, value in result.items()), flush=True)
    return not failed


def check_all(build_folder, paths):
    """Every model, and a llama with a tensor of factors once more with those of Llama 3."""
    sound = True
    for path in paths:
        try:
            for first_layer in (0, 1):
                sound &= check(build_folder, path, first_layer=first_layer)
            if "rope_freqs.weight" in Gguf(path).tensors:
                sound &= check(build_folder, path, llama3=True)
        except Refused as refusal:
            print(f"FAILED model {path.name}: {refusal}", flush=True)
            sound = False
    return sound


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
        sys.exit(0 if check_all(Path(sys.argv[2]).resolve(), [Path(path).resolve() for path in sys.argv[3:]]) else 1)
    else:
        sys.exit(__doc__)
