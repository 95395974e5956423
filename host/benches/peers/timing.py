"""One rank's side of a measurement: meeting the others, verifying a peer's all-reduce, timing it in a CUDA graph.

The chain lengths, the two replays that are not counted and the rule that the slowest rank's median counts are those of
`allfold bench --graph`. Every wait ends: with what was waited for, or with an exception, after which the process is of no use.
"""

import dataclasses
import datetime
import os
import re
import statistics
import tempfile
import time
from typing import Callable

import torch
import torch.distributed as dist

# Longest that a GPU, or another rank at a gate, is waited for.
WAIT_S = 20.0
# Longest that another rank is waited for while kernels may be compiled.
MEET_S = 400.0
REPLAYS = 10
UNCOUNTED_REPLAYS = 2
WARM_UP = 3


@dataclasses.dataclass
class Call:
    """A peer's all-reduce at one size."""

    # Where each rank's input goes before a call.
    input: torch.Tensor
    # Launches the all-reduce on the current stream and returns its output.
    run: Callable[[], torch.Tensor]
    # Whether the output is the input.
    in_place: bool = False
    # Whether it also runs outside a graph, to warm up.
    eager: bool = True
    # What every rank does after a capture, before a replay.
    captured: Callable[[], None] = lambda: None
    # Whether the names of its kernels are of interest.
    named: bool = False


class Ranks:
    """This rank among the others. `gate` is memory that all ranks share, a counter each."""

    def __init__(self, rank, world, gate, port, chain):
        self.rank, self.world = rank, world
        self._chain = chain
        self._gate, self._passed = gate, 0
        self.device = torch.device("cuda", rank)
        torch.cuda.set_device(rank)
        patience = datetime.timedelta(seconds=MEET_S)
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group(
            "nccl", init_method=address, rank=rank, world_size=world, device_id=self.device, timeout=patience
        )
        self.host = dist.new_group(backend="gloo", timeout=patience)
        self.stream = torch.cuda.Stream()

    def chain(self, size):
        """Calls in a graph."""
        return self._chain or (40 if size <= 4 << 20 else 5)

    def wait(self):
        """Waits for this rank's GPU."""
        event = torch.cuda.Event()
        event.record(self.stream)
        end = time.monotonic() + WAIT_S
        while not event.query():
            if time.monotonic() > end:
                raise TimeoutError(f"the GPU is not done after {WAIT_S:.0f} s")

    def meet(self):
        """Waits until every rank's GPU is done."""
        self.wait()
        dist.barrier(group=self.host)

    def gate(self):
        """Goes on together with the others, within microseconds: what one is late counts as the others' time."""
        self._passed += 1
        self._gate[self.rank] = self._passed
        end = time.monotonic() + WAIT_S
        while min(self._gate) < self._passed:
            if time.monotonic() > end:
                raise TimeoutError(f"another rank is not at the gate after {WAIT_S:.0f} s")

    def gather(self, value):
        """Every rank's value."""
        values = [None] * self.world
        dist.all_gather_object(values, value, group=self.host)
        return values

    def _terms(self, count, seed):
        """Each rank's input. All ranks make all of them: the reference owes nothing to any all-reduce."""
        for rank in range(self.world):
            generator = torch.Generator(device=self.device)
            generator.manual_seed(1000 * seed + rank)
            yield torch.randn(count, generator=generator, device=self.device, dtype=torch.bfloat16)

    def load(self, call, seed):
        """This rank's input of `seed`."""
        for rank, term in enumerate(self._terms(call.input.numel(), seed)):
            if rank == self.rank:
                call.input.copy_(term)
        self.meet()

    def wrong(self, output, seed):
        """Elements, over all ranks, that are not the sum: off by more than a bf16 rounding for each term, or not a number."""
        count = output.numel()
        total = torch.zeros(count, device=self.device)
        magnitude = torch.zeros(count, device=self.device)
        for term in self._terms(count, seed):
            total += term
            magnitude += term.abs()
        off = ~((output.float() - total).abs() <= magnitude * (self.world / 256))
        wrong = int(off.sum())
        return sum(self.gather(wrong))

    def capture(self, call, times):
        """A graph of so many calls, and the output of the last."""
        graph = torch.cuda.CUDAGraph()
        if call.named and times == 1:
            graph.enable_debug_mode()
        self.meet()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            for _ in range(times):
                output = call.run()
        call.captured()
        self.meet()
        return graph, output

    def verify(self, call, one, seed):
        """Replays the graph of one call on fresh input; returns how many elements are wrong."""
        graph, output = one
        if not call.in_place:
            output.fill_(float("nan"))
        self.load(call, seed)
        graph.replay()
        self.meet()
        return self.wrong(output, seed)

    def measure(self, call, size):
        """Microseconds a call, the median over replays of the rank for which it is longest, and the names of its kernels.

        Text in place of the time if a result is wrong.
        """
        self.load(call, 0)
        for _ in range(WARM_UP if call.eager else 0):
            call.run()
        one = self.capture(call, 1)
        for seed in (1, 2):
            if wrong := self.verify(call, one, seed):
                return f"WRONG: {wrong} elements, before it was timed", []
        kernels = kernel_names(one[0]) if call.named else []
        many, last = self.capture(call, self.chain(size))
        if call.in_place:
            # Sums of its own sums: infinity before long, which takes no other time.
            call.input.fill_(1e-3)
            self.meet()
        else:
            self.load(call, 3)
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        took = []
        for _ in range(REPLAYS):
            self.gate()
            start.record(self.stream)
            many.replay()
            stop.record(self.stream)
            self.wait()
            took.append(start.elapsed_time(stop) * 1e3 / self.chain(size))
        self.meet()
        wrong = 0 if call.in_place else self.wrong(last, 3)
        wrong += self.verify(call, one, 4)
        if wrong:
            return f"WRONG: {wrong} elements, when it had been timed", kernels
        return round(max(self.gather(statistics.median(took[UNCOUNTED_REPLAYS:]))), 3), kernels


def kernel_names(graph):
    """NCCL's kernels in a graph: with a window it may take its symmetric ones or not, and says nothing. Empty if not known."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.dot")
        try:
            graph.debug_dump(path)
            with open(path, encoding="utf-8", errors="replace") as file:
                return sorted(set(re.findall(r"nccl\w*Kernel\w*", file.read())))
        except (OSError, RuntimeError):
            return []
