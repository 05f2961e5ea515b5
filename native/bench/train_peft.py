#!/usr/bin/env python3
"""Adapter training by PyTorch + PEFT, as somebody careful does it: the same GGUF, rows, shape of the adapter and optimizer as `bench train`.

Rows of a batch are of like length and padded to the longest; logits are computed only where a token is trained on; nothing is kept for decoding
(use_cache=False). Whole epochs in one order: with --in-order that of the file, else that which a seed gives. Prints one JSON object.
Needs torch, transformers, peft and gguf.
"""
import argparse, json, os, random, resource, time

ap = argparse.ArgumentParser()
ap.add_argument("--model", help="GGUF file")
ap.add_argument("--shape", help="random weights of this shape instead, a JSON object with the keys of Transformers' LlamaConfig")
ap.add_argument("--rows", required=True, help='JSONL of {"tokens": [ids], "weights": [0 or 1 per token]}')
ap.add_argument("--rank", type=int, default=32)
ap.add_argument("--alpha", type=float, default=32)
ap.add_argument("--lr", type=float, default=1e-3)
ap.add_argument("--batch", type=int, default=16)
ap.add_argument("--steps", type=int, default=20)
ap.add_argument("--warmup", type=int, default=2, help="first steps, which are not timed")
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
ap.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--in-order", action="store_true")
ap.add_argument("--init", help="PEFT adapter to start from")
ap.add_argument("--compile", action="store_true", help="torch.compile over the model, lengths dynamic")
a = ap.parse_args()

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM


def peak_memory():
    if a.device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def order_of(rows):
    """Batches of whole rows, each epoch the same: by length, so that little is padding, in an order by the seed."""
    indices = list(range(len(rows)))
    if not a.in_order:
        indices.sort(key=lambda i: len(rows[i]["tokens"]))
    groups = [indices[i : i + a.batch] for i in range(0, len(indices), a.batch)]
    if not a.in_order:
        random.Random(a.seed).shuffle(groups)
    return groups


def padded(batch):
    width = max(len(row["tokens"]) for row in batch)
    tokens = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    targets = torch.full_like(tokens, -100)
    for i, row in enumerate(batch):
        ids = torch.tensor(row["tokens"])
        tokens[i, : len(ids)] = ids
        mask[i, : len(ids)] = 1
        targets[i, : len(ids)] = torch.where(torch.tensor(row["weights"]) > 0, ids, -100)
    return (x.to(a.device) for x in (tokens, mask, targets))


torch.set_num_threads(a.threads)
torch.manual_seed(a.seed)
before_model = peak_memory()  # Python's own and its libraries'
if a.shape:
    torch.set_default_dtype(getattr(torch, a.dtype))
    with torch.device(a.device):
        model = LlamaForCausalLM(LlamaConfig(**json.loads(a.shape)))
    torch.set_default_dtype(torch.float32)
else:
    folder, name = os.path.split(a.model)
    model = AutoModelForCausalLM.from_pretrained(folder or ".", gguf_file=name, dtype=getattr(torch, a.dtype)).to(a.device)
if a.init:
    model = PeftModel.from_pretrained(model, a.init, is_trainable=True)
else:
    linears = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(model, LoraConfig(r=a.rank, lora_alpha=a.alpha, target_modules=linears))
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=a.lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
causal = model.base_model.model
body = torch.compile(causal.model, dynamic=True) if a.compile else causal.model

rows = [json.loads(line) for line in open(a.rows)]
groups = order_of(rows)
losses, tokens, began = [], 0, 0.0
for step in range(a.steps):
    if step == a.warmup:
        if a.device == "cuda":
            torch.cuda.synchronize()
        tokens, began = 0, time.perf_counter()
    batch = [rows[i] for i in groups[step % len(groups)]]
    tokens += sum(len(row["tokens"]) for row in batch)
    ids, mask, targets = padded(batch)
    hidden = body(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    wanted = targets[:, 1:]
    asked = wanted != -100
    loss = torch.nn.functional.cross_entropy(causal.lm_head(hidden[:, :-1][asked]).float(), wanted[asked])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item())
if a.device == "cuda":
    torch.cuda.synchronize()
seconds = time.perf_counter() - began
print(json.dumps({
    "peer": f"torch {torch.__version__} + peft" + (", compiled" if a.compile else ""),
    "tokens_per_second": round(tokens / seconds, 1),
    "peak_memory_bytes": peak_memory(),
    "peak_memory_of_training_bytes": peak_memory() - before_model,
    "loss": [round(value, 5) for value in losses],
}))
