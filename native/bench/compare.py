#!/usr/bin/env python3
"""Training beside PyTorch + PEFT: the same model, rows and adapter shape, the two sides in turn on an idle machine.

Run with the Python that has torch, transformers, peft and gguf, after `npm run build:native`:

    python native/bench/compare.py --model M.gguf --peer train_peft.py --make-rows make_rows.py [--text FILE]

Prints one JSON object: per kind of rows the figures of every pair, the median of the ratios of tokens per second, and the ratio of
peak memory; with --text also the losses of both sides over 51 steps from one adapter on the same rows in the same order.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

ap = argparse.ArgumentParser()
ap.add_argument("--model", required=True)
ap.add_argument("--peer", required=True, help="prints tokens_per_second, peak_memory_bytes and loss as JSON")
ap.add_argument("--make-rows", required=True)
ap.add_argument("--text", help="text file whose rows both sides train on from the same adapter")
ap.add_argument("--kinds", nargs="+", choices=["qa", "doc"], default=["qa", "doc"], help="rows to train on")
ap.add_argument("--pairs", type=int, default=3)
ap.add_argument("--steps", type=int, default=20)
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--precision", choices=["bf16", "fp32"], help="of plumbline; without it what the processor is best at")
ap.add_argument("--peer-dtype", choices=["float32", "bfloat16"], default="float32")
a = ap.parse_args()
plumbline = os.path.join(os.path.dirname(__file__), "..", "..", "bin", "plumbline")
folder = tempfile.mkdtemp(prefix="plumbline-compare-")


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def rows(kind, *more):
    path = os.path.join(folder, kind + ".jsonl")
    with open(path, "w") as out: out.write(run(sys.executable, a.make_rows, "--kind", kind, *more))
    return path


def sides(path, *more):
    common = ["--model", a.model, "--rows", path, "--rank", "32", "--threads", str(a.threads), *more]
    precision = ["--precision", a.precision] if a.precision else []
    ours = json.loads(run(plumbline, "bench", "train", "--json", *common, *precision))
    return ours, json.loads(run(sys.executable, a.peer, *common, "--dtype", a.peer_dtype))


def torch_kernels():
    """What the peer's products may use of the processor; asked of a process of its own, as the peer is one."""
    ask = "import torch; print(torch.backends.cpu.get_cpu_capability(), 'mkldnn' if torch.backends.mkldnn.is_available() else '')"
    return run(sys.executable, "-c", ask).strip()


def speed(kind, batch, *more):
    pairs = [sides(rows(kind, *more), "--batch", str(batch), "--steps", str(a.steps)) for _ in range(a.pairs)]
    return {
        "plumbline": [round(ours["tokens_per_second"], 1) for ours, _ in pairs],
        "peer": [theirs["tokens_per_second"] for _, theirs in pairs],
        "ratio": round(statistics.median(ours["tokens_per_second"] / theirs["tokens_per_second"] for ours, theirs in pairs), 2),
        "memory_ratio": round(pairs[0][0]["peak_memory_bytes"] / pairs[0][1]["peak_memory_bytes"], 2),
        "floor_fraction": round(statistics.median(ours["floor_fraction"] for ours, _ in pairs), 2),
        "kernels": {"plumbline": pairs[0][0]["kernels"], "peer": torch_kernels()},
        "precision": {"plumbline": pairs[0][0]["precision"], "peer": a.peer_dtype},
        "ops": {name: round(share, 3) for name, share in pairs[0][0]["ops"].items()},
    }


def curves():
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    torch.manual_seed(1)
    base, _, name = a.model.rpartition("/")
    model = AutoModelForCausalLM.from_pretrained(base or ".", gguf_file=name, dtype=torch.float32)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    init = os.path.join(folder, "init")
    get_peft_model(model, LoraConfig(r=32, lora_alpha=32, target_modules=targets)).save_pretrained(init)
    path = rows("text", "--file", a.text, "--model", a.model, "--length", "128")
    ours, theirs = sides(path, "--init", init, "--in-order", "--batch", "8", "--steps", "51")
    late = [statistics.mean(side["loss"][40:51]) for side in (ours, theirs)]
    return {"first_steps_apart": [round(x - y, 6) for x, y in zip(ours["loss"][:5], theirs["loss"])],
            "steps_40_to_50": late, "relative": late[0] / late[1] - 1}


batches = {"qa": (16,), "doc": (4, "--count", "64")}
result = {kind: speed(kind, *batches[kind]) for kind in a.kinds}
if a.text: result["curves"] = curves()
print(json.dumps(result, indent=2))
