"""Small transformers and what they are trained on: a GPT of characters, and a vision transformer for digits.

They call torch.nn.functional as transformers do: scaled_dot_product_attention where PyTorch has it, else its parts."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    products = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    if causal:
        hidden = torch.ones(products.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        products = products.masked_fill(hidden, float("-inf"))
    return F.softmax(products, dim=-1) @ v


class Block(nn.Module):
    """LayerNorm, attention, LayerNorm, two linear layers with GELU; each pair added to what it read."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(width, dim=-1))
        mixed = attention(q, k, v, self.causal).transpose(1, 2).reshape(batch, length, width)
        x = x + F.dropout(self.out(mixed), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.dropout, self.training)


def _initialize(model: nn.Module, layers: int) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            deeper = name.endswith(("out.weight", "down.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if deeper else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


class GPT(nn.Module):
    def __init__(self, symbols: int, context: int, layers: int = 4, width: int = 256, heads: int = 4,
                 dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, True, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)
        _initialize(self, layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.blocks(x)))


class ViT(nn.Module):
    """Of images of one channel, cut in squares of `patch` pixels."""

    def __init__(self, size: int = 16, patch: int = 4, classes: int = 10, layers: int = 4, width: int = 64,
                 heads: int = 4) -> None:
        super().__init__()
        self.patch = patch
        self.embed, self.positions = nn.Linear(patch * patch, width), nn.Embedding((size // patch) ** 2, width)
        self.blocks = nn.Sequential(*(Block(width, heads, False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
        x = self.embed(x) + self.positions.weight
        return self.head(self.norm(self.blocks(x)).mean(1))


def make_deterministic(device: str) -> None:
    """Two trainings of one seed then end with the same weights. By default cuDNN's gradients of convolutions, and other
    sums, depend on the order in which a GPU's threads add. Call it before anything is computed. PyTorch warns of
    operations that have no deterministic form."""
    if not device.startswith("cuda"):
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)


def text() -> torch.Tensor:
    """The repository's own documents and headers, a number a character; those that are not ASCII are one symbol."""
    files = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", *sorted((ROOT / "include").rglob("*.hpp"))]
    symbols = [byte if byte < 128 else 0 for f in files for byte in f.read_bytes()]
    return torch.tensor(symbols, dtype=torch.uint8)
