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

import numpy
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tiny_transformers import CLASSES, Gguf, build, halves

RANK, ALPHA, LENGTHS, SEED = 2, 3.0, (40, 25), 31
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
    model, linears = build(source, torch.float64)
    adapters = {}
    for name, (layer, module, head) in linears.items():
        adapters[name] = Adapted(layer.get_submodule(module), name, head)
        layer.set_submodule(module, adapters[name])
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
