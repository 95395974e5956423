"""Times public all-reduce implementations on the GPUs of one host, in CUDA graphs, one process a GPU, each verified.

    host/benches/peers/prepare .peers                                  with a network, no GPU
    python3 host/benches/peers/peers.py --prepared .peers --json FILE  with PyTorch and nvcc, no network

Columns, all bf16 sum, microseconds a call, as `allfold bench --graph` counts them:

    nccl          torch.distributed.all_reduce, in place
    nccl_symm     the same on memory that is registered as a symmetric window
    torch_1shot   PyTorch's symmetric memory, one-shot; torch_2shot its two-shot, in place
    vllm_copy     vLLM's custom all-reduce, input copied to its buffer first; vllm_graph on captured input, registered
    trt_lamport   TensorRT-LLM's one-shot with a marker in the data; trt_2shot; _pdl with programmatic dependent launch
    sgl_1push     SGLang's one-shot with a marker in the data; sgl_2push its two-shot without barriers
    sgl_1pull     SGLang's one-shot on registered input; sgl_2pull its two-shot in place

A column that fails, or stands still, ends with its reason under `errors`; the others go on. NVLink multicast stays off.
"""

import argparse
import datetime
import functools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time

import worker
from runner import Table, run_family

FAMILIES = {
    "torch": ("nccl", "torch_1shot", "torch_2shot"),
    "nccl_symm": ("nccl_symm",),
    "vllm": ("vllm_copy", "vllm_graph"),
    "trt": ("trt_lamport", "trt_lamport_pdl", "trt_2shot", "trt_2shot_pdl"),
    "sgl": ("sgl_1push", "sgl_2push", "sgl_1pull", "sgl_2pull"),
}
BUILT = {"vllm": "vllm_comm", "trt": "trt_fuse"}
SIZES = [1 << power for power in range(9, 29)]
BUILD_S = 420.0
# A program that fails while it uses multicast can put a host's GPUs out of service.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def worker_settings(family, prepared, sizes, chain):
    """What workers are told, with a port to meet at that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return family, prepared, sizes, probe.getsockname()[1], chain


class Builds:
    """Compilers of the extensions, all at once."""

    def __init__(self, prepared, families):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "extensions.py")
        self.running = {}
        for family in families & BUILT.keys():
            command = [sys.executable, script, prepared, BUILT[family]]
            pipe = subprocess.PIPE
            self.running[family] = subprocess.Popen(
                command, stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
            )
        self.end = time.monotonic() + BUILD_S

    def wait(self, family):
        """Why there is no extension for a family; `None` if there is one, or it needs none."""
        build = self.running.get(family)
        if build is None:
            return None
        try:
            said, _ = build.communicate(timeout=max(self.end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            return f"not built after {BUILD_S:.0f} s"
        return f"not built: {said[-1500:]}" if build.returncode else None

    def stop(self):
        """Ends the compilers that still run."""
        for build in self.running.values():
            if build.poll() is None:
                os.killpg(build.pid, signal.SIGKILL)
                build.wait(10)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = lambda text: sorted({int(size) for size in text.split(",")})
    parser.add_argument("--bytes", type=sizes, default=SIZES, metavar="LIST", help="sizes [default: 512 to 256M]")
    parser.add_argument("--chain", type=int, metavar="N", help="calls in a graph [default: 40 up to 4M, 5 above]")
    parser.add_argument("--only", metavar="LIST", help="columns that begin so")
    parser.add_argument("--prepared", default=".peers", metavar="FOLDER", help="what `prepare` made [default: .peers]")
    parser.add_argument("--limit", type=float, default=1200.0, metavar="SECONDS", help="for all of it [default: 1200]")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    return parser.parse_args()


def main():
    args = arguments()
    end = time.monotonic() + args.limit
    os.environ.update(NO_MULTICAST)
    import torch

    world = torch.cuda.device_count()
    if world < 2:
        print(f"SKIPPED: PyTorch sees {world} GPUs, and an all-reduce needs two")
        return 0
    wanted = tuple(args.only.split(",")) if args.only else ("",)
    columns = {family: [c for c in names if c.startswith(wanted)] for family, names in FAMILIES.items()}
    columns = {family: names for family, names in columns.items() if names}
    prepared = os.path.abspath(args.prepared)
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    table = Table(args.json, gpu=None, world=world, dtype="bf16", unit="us", date=date)
    context = multiprocessing.get_context("spawn")
    builds = Builds(prepared, columns.keys())
    try:
        # All of them first: a compiler beside a measurement is in it.
        missing = {family: builds.wait(family) for family in columns}
        for family, names in columns.items():
            if missing[family]:
                for name in names:
                    table.fail(name, None, missing[family])
                continue
            settings = functools.partial(worker_settings, family, prepared, args.bytes, args.chain)
            run_family(context, worker.work, world, settings, names, table, end)
    finally:
        builds.stop()
        table.save()
    return 1 if table.errors else 0


if __name__ == "__main__":
    sys.exit(main())
