#!/usr/bin/env python3
"""Keeps the weights of a training up to date in another process, by deltas.

A trainer runs AdamW and sends the changes of its bf16 weights. A server applies them in place, and answers requests
with its weights in between. Deltas are not acknowledged. Each delta contains a digest of its base. The server checks a
delta before it changes a weight, and rejects it if a message was lost, repeated or damaged. Its next answer asks for a
full frame if it needs one.

This program starts both processes. With --role it starts one of them, also on another host: --rendezvous
tcp://HOST:PORT.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator

try:
    import torch
    import tuck

    import gpt
    import sizes
    from link import ANSWER, DELTA, END, FULL, REQUEST, ROLES, Failure, Link
except ImportError as missing:
    sys.exit(f"weight_sync: {missing}")

FULL_CODEC = "zvc+rle+huffman"
TABLE_STEPS = 8  # the table shows the last of these steps


def raw_bytes(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().view(torch.uint8)


class Server:
    """Applies messages and answers requests. It continues after a bad message."""

    def __init__(self, model: gpt.Gpt, link: Link) -> None:
        self.weights, self.model, self.link = model.flat.zero_(), model, link
        self.spare = torch.empty_like(self.weights)
        self.step, self.wants_full = 0, True  # nothing has been received yet
        self.counts: Counter = Counter()

    def run(self) -> None:
        most = 3 * self.weights.numel() + (1 << 20)
        while True:
            kind, step, _, digest, payload = self.link.receive((DELTA, FULL, REQUEST, END), most)
            if kind == END:
                return self.report()
            if kind == REQUEST:
                self.answer(payload)
                continue
            begin = time.process_time()
            try:
                self.apply(kind, digest, payload)
                self.step, self.wants_full = step, False
                self.counts["deltas" if kind == DELTA else "full frames"] += 1
                self.counts["seconds"] += time.process_time() - begin
            except tuck.TuckError as why:
                self.refuse(kind, step, why)

    def apply(self, kind: int, digest: int, frame: torch.Tensor) -> None:
        if kind == DELTA:
            tuck.apply_delta(frame, self.weights, out=self.weights, threads=torch.get_num_threads())  # verified first
            return
        tuck.decode(frame, out=self.spare)
        if tuck.digest(self.spare) != digest:
            raise tuck.TuckError("these are not the weights that were sent")
        self.weights.copy_(self.spare)

    def refuse(self, kind: int, step: int, why: tuck.TuckError) -> None:
        self.counts["refused"] += 1
        repeated = kind == DELTA and step == self.step and not self.wants_full
        self.wants_full = not repeated
        print(f"server: step {step}: {why}; {'it is applied already' if repeated else 'asks for a full frame'}", flush=True)

    def answer(self, tokens: torch.Tensor) -> None:
        with torch.no_grad():
            logits = self.model(tokens.long()[None])[0, -1]
        self.link.send(ANSWER, self.step, raw_bytes(logits), flag=self.wants_full,
                       digest=tuck.digest(self.weights))

    def report(self) -> None:
        c = self.counts
        rate = (c["deltas"] + c["full frames"]) * self.weights.numel() * 2 / max(c["seconds"], 1e-9) / 1e9
        print(f"server: {c['deltas']} deltas and {c['full frames']} full frames applied at {rate:.1f} GB/s of weights a core, "
              f"{c['refused']} refused", flush=True)


class Sender:
    """The part of the trainer that keeps a server up to date."""

    def __init__(self, model: gpt.Gpt, link: Link, faults: dict[str, list[int]]) -> None:
        self.weights, self.model, self.link, self.faults = model.flat, model, link, faults
        self.sent = self.weights.clone()  # the server's weights, if no message was lost or damaged
        self.text = gpt.Text(seed=1)
        self.counts: Counter = Counter()

    def send_delta(self, step: int) -> None:
        begin = time.process_time()
        frame = tuck.encode_delta(self.weights, self.sent, threads=torch.get_num_threads())
        self.counts.update({"seconds": time.process_time() - begin, "deltas": 1, "delta bytes": frame.numel(),
                            "changed": int((self.weights.view(torch.int16) != self.sent.view(torch.int16)).sum())})
        self.sent.copy_(self.weights)
        for fault, steps in self.faults.items():
            if step in steps:
                print(f"trainer: step {step}: this delta is {fault} on its way", flush=True)
        if step in self.faults["damaged"]:
            frame[frame.numel() // 2] ^= 1
        if step not in self.faults["lost"]:
            self.link.send(DELTA, step, frame)
        if step in self.faults["repeated"]:
            self.link.send(DELTA, step, frame)

    def ask(self, step: int) -> bool:
        """Requests an answer, and sends a full frame if the server wants it. Returns whether it has these weights."""
        tokens = self.text.batch(1)[0][0]
        for attempt in range(3):
            self.link.send(REQUEST, step, tokens.to(torch.uint8))
            _, its_step, wants_full, digest, answer = self.link.receive((ANSWER,), 4 * 256)
            if not wants_full:
                break
            if attempt == 2:
                raise Failure("the server takes no full frame; do both have the same --width and --layers?")
            self.send_full(step, its_step)
        with torch.no_grad():
            expected = raw_bytes(self.model(tokens[None])[0, -1])
        is_current = digest == tuck.digest(self.weights)
        if its_step == step and not is_current:
            raise Failure(f"step {step}: the server has other weights and does not know")
        self.counts["current" if is_current else "older"] += 1
        self.counts["equal"] += is_current and torch.equal(answer, expected)
        return is_current

    def send_full(self, step: int, its_step: int) -> None:
        frame = tuck.encode(self.weights, FULL_CODEC)
        self.link.send(FULL, step, frame, digest=tuck.digest(self.weights))
        self.counts.update({"full frames": 1, "full bytes": frame.numel()})
        print(f"trainer: step {step}: a full frame of {frame.numel():,} bytes for the server, which is at step {its_step}",
              flush=True)

    def finish(self, steps: int) -> None:
        if not self.ask(steps):  # the last delta was lost; an empty delta makes the server notice
            self.link.send(DELTA, steps, tuck.encode_delta(self.sent, self.sent))
            if not self.ask(steps):
                raise Failure(f"after {steps} steps the server has other weights")
        self.link.send(END, steps)
        self.report(steps)

    def report(self, steps: int) -> None:
        c, raw = self.counts, self.weights.numel() * 2
        print(f"trainer: after {steps} steps the server has the same weights, bit for bit: digest "
              f"{tuck.digest(self.weights):016x}\n"
              f"trainer: {c['current'] + c['older']} answers: {c['current']} from the weights of their step, "
              f"{c['equal']} of these equal to the trainer's own; {c['older']} from older weights\n"
              f"trainer: {c['deltas']} deltas of {c['delta bytes'] // c['deltas']:,} bytes in the mean, "
              f"{raw * c['deltas'] / c['delta bytes']:.1f} times smaller than {raw:,} bytes of weights, of which "
              f"{200 * c['changed'] / c['deltas'] / raw:.2f} % changed; encoded at "
              f"{raw * c['deltas'] / c['seconds'] / 1e9:.1f} GB/s a core; {c['full frames']} full frames of "
              f"{c['full bytes'] // c['full frames']:,} bytes", flush=True)


def pairs_by_rate(trainer: gpt.Trainer, rates: list[float]) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Yields the weights before and after a step at each learning rate. All rates start from the same weights."""
    begin = trainer.weights.detach().clone()
    for rate in rates:
        trainer.restart(begin, rate)
        for _ in range(TABLE_STEPS):
            old = trainer.model.flat.clone()
            trainer.step()
        yield f"AdamW {rate:g}", old, trainer.model.flat


def run_trainer(o: argparse.Namespace) -> None:
    recorded = [sizes.recorded_pair(*o.pair)] if o.pair else []
    model = gpt.Gpt(o.width, o.layers)
    link = Link("trainer", o.backend, o.rendezvous, o.timeout)
    trainer = gpt.Trainer(model, gpt.Text(), o.batch)
    losses = [trainer.step() for _ in range(o.warm_up)]
    print(f"trainer: a GPT of {model.flat.numel():,} bf16 weights; loss from {losses[0]:.2f} to {losses[-1]:.2f} in "
          f"{o.warm_up} steps at {gpt.WARM_UP_RATE:g}, then {o.steps} steps at {o.rate:g}", flush=True)
    sender = Sender(model, link, {"lost": o.drop, "repeated": o.repeat, "damaged": o.damage})
    sender.ask(0)
    trainer.restart(trainer.weights.detach().clone(), o.rate)
    for step in range(1, o.steps + 1):
        trainer.step()
        sender.send_delta(step)
        sender.ask(step)
    sender.finish(o.steps)
    link.close()
    if o.rates or recorded:
        sizes.print_table(pair for pairs in (pairs_by_rate(trainer, o.rates), recorded) for pair in pairs)


def run_server(o: argparse.Namespace) -> None:
    link = Link("server", o.backend, o.rendezvous, o.timeout)
    Server(gpt.Gpt(o.width, o.layers), link).run()
    link.close()


def launch(o: argparse.Namespace, arguments: list[str]) -> int:
    """Starts both processes. If one fails, the other has the time-out to notice it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        together = ["--rendezvous", o.rendezvous or f"file://{folder}/rendezvous"]
        children = [subprocess.Popen([sys.executable, __file__, *arguments, *together, "--role", role]) for role in ROLES]
        try:
            while all(child.poll() in (None, 0) for child in children):
                if all(child.poll() == 0 for child in children):
                    return 0
                time.sleep(0.05)
            for child in children:
                child.wait(o.timeout + 5)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            pass
        finally:
            for role, child in zip(ROLES, children):
                if child.poll() is None:
                    child.kill()
                if child.wait() < 0:
                    print(f"weight_sync: the {role} was killed by signal {-child.returncode}", file=sys.stderr)
    return 1


def listed(convert: Callable[[str], float]) -> Callable[[str], list]:
    return lambda text: [convert(part) for part in text.split(",") if part]


def positive(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")


def count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], allow_abbrev=False)
    add = parser.add_argument
    add("--steps", type=count, default=100, help="steps whose deltas are sent (100)")
    add("--drop", type=listed(count), default=[], metavar="STEPS", help="steps whose delta is lost: 10,20")
    add("--repeat", type=listed(count), default=[], metavar="STEPS", help="steps whose delta is sent twice")
    add("--damage", type=listed(count), default=[], metavar="STEPS", help="steps whose delta has a bit flipped")
    add("--rate", type=positive, default=1e-6, help="AdamW's learning rate (1e-6)")
    add("--rates", type=listed(positive), default=[1e-6, 3e-6, 1e-5, 3e-5, 1e-4], metavar="RATES",
        help="learning rates in the table; '' for none")
    add("--pair", nargs=2, metavar=("OLD.npy", "NEW.npy"), help="adds two states of bf16 weights to the table")
    add("--width", type=count, default=256, help="width of the model, a multiple of 64 (256)")
    add("--layers", type=count, default=4, help="layers of the model (4)")
    add("--batch", type=count, default=4, help="texts per step (4)")
    add("--warm-up", type=count, default=30, help="steps before the first delta (30)")
    add("--threads", type=count, default=1, help="threads of each process (1)")
    add("--timeout", type=positive, default=60.0, help="seconds that one side waits for the other (60)")
    add("--backend", choices=("gloo", "nccl"), default="gloo")
    add("--role", choices=ROLES, help="start only this side; needs --rendezvous")
    add("--rendezvous", metavar="URL", help="tcp://HOST:PORT or file:///PATH")
    o = parser.parse_args(arguments)
    if o.width % 64:
        parser.error("--width must be a multiple of 64")
    for name in ("drop", "repeat", "damage"):
        if any(not 1 <= step <= o.steps for step in getattr(o, name)):
            parser.error(f"--{name}: steps must be 1 to {o.steps}")
    if o.role and not o.rendezvous:
        parser.error("--role needs --rendezvous")
    return o


def main(arguments: list[str]) -> int:
    o = options_of(arguments)
    if not o.role:
        return launch(o, arguments)
    torch.set_num_threads(o.threads)
    try:
        run_trainer(o) if o.role == "trainer" else run_server(o)
    except (Failure, OSError, ValueError) as why:
        print(f"{o.role}: {why}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
