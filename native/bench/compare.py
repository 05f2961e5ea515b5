#!/usr/bin/env python3
"""Training beside PyTorch + PEFT: the same model, rows, batches and shape of the adapter, the two sides in turn on an idle machine.

Run with the Python that has torch, transformers, peft and gguf, after `npm run build:native`:

    python native/bench/compare.py --model M.gguf [--text FILE] [--compile]
    python native/bench/compare.py --shape llama-8b --device cuda --dtype bfloat16

Batches are of rows of like length, in one order that both sides keep, and what is timed are whole epochs after a warm-up. The side that
starts a pair alternates. Prints one JSON object: per kind of rows the tokens per second of every pair and the median of their ratios; the
rates of both sides' own products, with the instructions they use; the ratio of peak memory, with and without what Python and Node take for
themselves; with --text also the losses of both sides over 51 steps from one adapter on the same rows.
"""
import argparse, json, os, random, statistics, subprocess, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser()
ap.add_argument("--model", help="GGUF file")
ap.add_argument("--shape", choices=["smollm2-135m", "llama-1b", "llama-8b"], help="random weights of this shape instead of a file")
ap.add_argument("--peer", default=os.path.join(here, "train_peft.py"))
ap.add_argument("--text", help="text file whose rows both sides train on from the same adapter")
ap.add_argument("--kinds", nargs="+", choices=["qa", "doc", "long"], default=["qa", "doc"], help="rows to train on")
ap.add_argument("--pairs", type=int, default=5)
ap.add_argument("--epochs", type=int, default=1, help="that are timed")
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of the peer; plumbline takes the GPU where there is one")
ap.add_argument("--precision", choices=["bf16", "fp32"], help="of plumbline; without it what the device is best at")
ap.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of the peer")
ap.add_argument("--compile", action="store_true", help="the peer by torch.compile")
a = ap.parse_args()
plumbline = os.path.join(here, "..", "..", "bin", "plumbline")
folder = tempfile.mkdtemp(prefix="plumbline-compare-")
warmup = 2
# Rows, tokens of each, how many of a hundred are trained on, rows of a batch.
kinds = {"qa": (512, (24, 64), 40, 16), "doc": (64, (512, 512), 100, 4), "long": (48, (4096, 4096), 100, 2)}
# The shapes of src/cli/bench/shapes.ts that are llama's, as Transformers names them.
shapes = {
    "smollm2-135m": dict(hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, vocab_size=49152, tie_word_embeddings=True),
    "llama-1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True),
    "llama-8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=False),
}
if (a.model is None) == (a.shape is None):
    ap.error("give --model or --shape, and not both")
if a.shape and a.text:
    ap.error("--text needs --model: random weights have no tokenizer")


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def written(name, rows):
    path = os.path.join(folder, name + ".jsonl")
    with open(path, "w") as out:
        for tokens, untrained in rows:
            out.write(json.dumps({"tokens": tokens, "weights": [0] * untrained + [1] * (len(tokens) - untrained)}) + "\n")
    return path


def random_rows(kind):
    count, (least, most), trained, batch = kinds[kind]
    draw = random.Random(0)
    rows = sorted(([draw.randrange(10, 49000) for _ in range(draw.randint(least, most))] for _ in range(count)), key=len)
    batches = [rows[i : i + batch] for i in range(0, count, batch)]
    draw.shuffle(batches)
    return written(kind, [(row, max(1, len(row) * (100 - trained) // 100)) for rows in batches for row in rows])


def pair(path, ours_first, *more):
    common = ["--rows", path, "--rank", "32", "--threads", str(a.threads), "--in-order", *more]
    ours = ["--model", a.model] if a.model else ["--shape", a.shape, "--quant", "q4_k"]
    theirs = ["--model", a.model] if a.model else ["--shape", json.dumps(shapes[a.shape])]
    sides = {
        "ours": [plumbline, "bench", "train", "--json", *ours, *common, *(["--precision", a.precision] if a.precision else [])],
        "theirs": [sys.executable, a.peer, *theirs, *common, "--dtype", a.dtype, "--device", a.device, *(["--compile"] if a.compile else [])],
    }
    said = {name: json.loads(run(*sides[name])) for name in (("ours", "theirs") if ours_first else ("theirs", "ours"))}
    return said["ours"], said["theirs"]


def peer_products():
    """What the peer's own products reach, TFLOP/s, and the instructions that they may use; asked of a process of its own, as the peer is one."""
    ask = f"""
import json, time, torch
torch.set_num_threads({a.threads})
def rate(kind):
    x, w = (torch.randn(*size, device="{a.device}").to(kind) for size in ((512, 576), (576, 1536)))
    def once():
        began = time.perf_counter()
        for _ in range(40): x @ w
        if "{a.device}" == "cuda": torch.cuda.synchronize()
        return 40 * 2 * 512 * 576 * 1536 / (time.perf_counter() - began) / 1e12
    return round(max(once() for _ in range(5)), 3)
print(json.dumps(dict(float32=rate(torch.float32), bfloat16=rate(torch.bfloat16), kernels=torch.backends.cpu.get_cpu_capability())))
"""
    return json.loads(run(sys.executable, "-c", ask))


def speed(kind):
    count, _, _, batch = kinds[kind]
    path = random_rows(kind)
    steps = warmup + a.epochs * -(-count // batch)
    pairs = [pair(path, at % 2 == 0, "--batch", str(batch), "--steps", str(steps), "--warmup", str(warmup)) for at in range(a.pairs)]
    ours, theirs = pairs[0]
    return {
        "plumbline": [round(o["tokens_per_second"], 1) for o, _ in pairs],
        "peer": [t["tokens_per_second"] for _, t in pairs],
        "ratio": round(statistics.median(o["tokens_per_second"] / t["tokens_per_second"] for o, t in pairs), 2),
        "memory_ratio": {
            "all": round(ours["peak_memory_of_all_bytes"] / theirs["peak_memory_bytes"], 2),
            "of_training": round(ours["peak_memory_bytes"] / theirs["peak_memory_of_training_bytes"], 2),
        },
        "floor_fraction": round(statistics.median(o["floor_fraction"] for o, _ in pairs), 2),
        "kernels": ours["kernels"],
        "products_tflops": round(ours["gemm_flops_per_second"] / 1e12, 3),
        "computes_in": {"plumbline": ours["precision"], "peer": a.dtype},
        "peer_is": theirs["peer"],
    }


def curves():
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(1)
    base, name = os.path.split(a.model)
    model = AutoModelForCausalLM.from_pretrained(base or ".", gguf_file=name, dtype=torch.float32)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    init = os.path.join(folder, "init")
    get_peft_model(model, LoraConfig(r=32, lora_alpha=32, target_modules=targets)).save_pretrained(init)
    tokens = AutoTokenizer.from_pretrained(base or ".", gguf_file=name)(open(a.text).read())["input_ids"]
    path = written("text", [(tokens[i : i + 128], 1) for i in range(0, min(len(tokens) - 128, 512 * 128), 128)])
    ours, theirs = pair(path, True, "--init", init, "--batch", "8", "--steps", "51")
    late = [statistics.mean(side["loss"][40:51]) for side in (ours, theirs)]
    return {
        "first_steps_apart": [round(x - y, 6) for x, y in zip(ours["loss"][:5], theirs["loss"])],
        "steps_40_to_50": late,
        "relative": late[0] / late[1] - 1,
    }


result = {kind: speed(kind) for kind in a.kinds}
result["peer_products_tflops"] = peer_products()
if a.text:
    result["curves"] = curves()
print(json.dumps(result, indent=2))
