"""Messages between two processes, over torch.distributed."""

from __future__ import annotations

import contextlib
import re
from datetime import timedelta

import torch
import torch.distributed as dist

DELTA, FULL, REQUEST, ANSWER, END = range(1, 6)
ROLES = ("trainer", "server")
HEAD = 5  # integers: kind, step, flag, digest, bytes of the payload


class Failure(RuntimeError):
    """An error that ends a process, as a message of one line."""


@contextlib.contextmanager
def failing(what: str):
    try:
        yield
    except (RuntimeError, ValueError) as error:
        why = re.sub(r"^\[[^]]*:\d+\] ", "", str(error).splitlines()[0])  # removes gloo's file and line
        raise Failure(f"{what}: {why}") from error


class Link:
    def __init__(self, role: str, backend: str, rendezvous: str, seconds: float) -> None:
        self.me = ROLES.index(role)
        self.peer, self.name = 1 - self.me, ROLES[1 - self.me]
        self.device = torch.device("cpu")
        if backend == "nccl":
            self.device = torch.device("cuda", self.me % max(torch.cuda.device_count(), 1))
        with failing(f"cannot meet the {self.name}"):
            dist.init_process_group(backend, init_method=rendezvous, rank=self.me, world_size=2,
                                    timeout=timedelta(seconds=seconds))

    def send(self, kind: int, step: int, payload: torch.Tensor | None = None, *, flag: bool = False,
             digest: int = 0) -> None:
        size = 0 if payload is None else payload.numel()
        head = [kind, step, int(flag), digest - 2**64 if digest >= 2**63 else digest, size]
        with failing(f"the {self.name} is gone"):
            dist.send(torch.tensor(head, device=self.device), self.peer)
            if size:
                dist.send(payload.to(self.device), self.peer)

    def receive(self, kinds: tuple[int, ...], most: int) -> tuple[int, int, bool, int, torch.Tensor]:
        """Returns kind, step, flag, digest and payload. Fails if the payload has more than `most` bytes."""
        head = torch.zeros(HEAD, dtype=torch.int64, device=self.device)
        with failing(f"the {self.name} is gone"):
            dist.recv(head, self.peer)
        kind, step, flag, digest, size = head.tolist()
        if kind not in kinds or not 0 <= size <= most:
            raise Failure(f"the {self.name} sent an unexpected message: kind {kind}, {size} bytes")
        payload = torch.empty(size, dtype=torch.uint8, device=self.device)
        if size:
            with failing(f"the {self.name} is gone"):
                dist.recv(payload, self.peer)
        return kind, step, bool(flag), digest % 2**64, payload.cpu()

    def close(self) -> None:
        dist.destroy_process_group()
