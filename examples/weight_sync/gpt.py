"""A small GPT over bytes, its text, and its weights as one tensor."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 64
WARM_UP_RATE = 1e-3
ROOT = Path(__file__).resolve().parents[2]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.before_attention(x)).chunk(3, dim=-1))
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Gpt(nn.Module):
    """A GPT in bf16. Its parameters are views of `flat`, one tensor with all weights."""

    def __init__(self, width: int, layers: int, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, max(1, width // 64)) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        self.flat = torch.cat([p.detach().reshape(-1) for p in self.parameters()]).bfloat16()
        begin = 0
        for p in self.parameters():
            p.data = self.flat[begin:begin + p.numel()].view(p.shape)
            begin += p.numel()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.place(places)))).float()


class Text:
    """Random batches of this repository's pages."""

    def __init__(self, seed: int = 0) -> None:
        pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        self.bytes = torch.frombuffer(bytearray(b"".join(p.read_bytes() for p in pages)), dtype=torch.uint8).long()
        self.draws = torch.Generator().manual_seed(seed)

    def batch(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        begins = torch.randint(len(self.bytes) - CONTEXT - 1, (size, 1), generator=self.draws)
        cut = self.bytes[begins + torch.arange(CONTEXT + 1)]
        return cut[:, :-1], cut[:, 1:]


class Trainer:
    """Runs AdamW on f32 weights. The model has them rounded to bf16."""

    def __init__(self, model: Gpt, text: Text, batch: int) -> None:
        self.model, self.text, self.batch = model, text, batch
        self.restart(model.flat.float(), WARM_UP_RATE)

    def restart(self, weights: torch.Tensor, rate: float) -> None:
        """Starts from these weights, with zero moments."""
        self.weights = nn.Parameter(weights.clone())
        self.model.flat.copy_(weights)
        self.optimizer = torch.optim.AdamW([self.weights], lr=rate)

    def step(self) -> float:
        tokens, following = self.text.batch(self.batch)
        loss = F.cross_entropy(self.model(tokens).flatten(0, 1), following.flatten())
        gradients = torch.autograd.grad(loss, list(self.model.parameters()))
        self.weights.grad = torch.cat([g.reshape(-1) for g in gradients]).float()
        self.optimizer.step()
        self.model.flat.copy_(self.weights.detach())
        return loss.item()
