"""Small transformers and what they are trained on: a GPT and a LLaMA of characters, a vision transformer of digits.

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


class RMSNorm(nn.Module):
    """As LLaMA's code writes it: in float32, whatever comes."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embeddings: the two halves of each head are turned by an angle of the position."""
    a, b = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-b, a), dim=-1) * sin).type_as(x)


class LlamaBlock(nn.Module):
    """RMSNorm, attention with fewer keys than queries, RMSNorm, SwiGLU; each pair added to what it read."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        hidden = 8 * width // 3 // 16 * 16
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.kv = (nn.Linear(width, n * self.size, bias=False) for n in (heads, 2 * groups))
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        q, k, v = (t.view(batch, length, -1, self.size).transpose(1, 2) for t in (self.q(y), *self.kv(y).chunk(2, -1)))
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (rotated(k, cos, sin), v))
        mixed = attention(rotated(q, cos, sin), k, v, True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        gate, up = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, symbols: int, context: int, layers: int = 4, width: int = 256, heads: int = 4,
                 groups: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(symbols, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, symbols, bias=False)
        _initialize(self, layers)
        size = width // heads
        angles = torch.arange(context)[:, None] * 10000 ** -(torch.arange(0, size, 2) / size).repeat(2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length, x = x.shape[1], self.tokens(x)
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length])
        return self.head(self.norm(x))


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
