"""The peers, in families that share a set-up. Each knows which sizes its columns take, and makes their calls.

A family is `Family(ranks, largest, prepared)`: the ranks that meet, bytes that no size exceeds, the prepared folder. Its
columns are in peers.py.
"""

import os
import sys

import torch
import torch.distributed as dist

from extensions import library
from timing import Call

BF16 = torch.bfloat16
MIB = 1 << 20


def empty(ranks, size):
    return torch.empty(size // 2, device=ranks.device, dtype=BF16)


class Torch:
    """torch.distributed over NCCL, and PyTorch's symmetric memory."""

    def __init__(self, ranks, _largest, _prepared):
        self.ranks = ranks

    def fits(self, column, size):
        return column != "torch_1shot" or size <= 32 * MIB

    def call(self, column, size):
        if column == "nccl":
            return in_place(empty(self.ranks, size))
        import torch.distributed._symmetric_memory as symm

        group = dist.group.WORLD.group_name
        data = symm.empty(size // 2, dtype=BF16, device=self.ranks.device)
        symm.rendezvous(data, group)
        if column == "torch_1shot":
            return Call(data, lambda: torch.ops.symm_mem.one_shot_all_reduce(data, "sum", group))
        return Call(data, lambda: torch.ops.symm_mem.two_shot_all_reduce_(data, "sum", group), in_place=True)


def in_place(data):
    """NCCL's all-reduce, as torch.distributed calls it."""

    def run():
        dist.all_reduce(data)
        return data

    return Call(data, run, in_place=True, named=True)


class NcclWindow:
    """NCCL on memory of ncclMemAlloc that every rank has registered as a symmetric window (NCCL 2.27 and later)."""

    def __init__(self, ranks, largest, _prepared):
        if torch.cuda.nccl.version() < (2, 27):
            raise RuntimeError(f"NCCL {torch.cuda.nccl.version()} has no symmetric windows: 2.27 is the first that has")
        backend = dist.group.WORLD._get_backend(ranks.device)
        self.pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(self.pool):
            self.memory = empty(ranks, largest)
        ranks.meet()
        # ncclCommWindowRegister with NCCL_WIN_COLL_SYMMETRIC, of what is in the pool by now.
        backend.register_mem_pool(self.pool, True)
        ranks.meet()

    def fits(self, _column, _size):
        return True

    def call(self, _column, size):
        return in_place(self.memory[: size // 2])


class Ipc:
    """Device memory that every rank maps, as vLLM and TensorRT-LLM share theirs."""

    def __init__(self, ranks):
        from cuda.bindings import driver, runtime

        self.ranks, self.driver, self.runtime = ranks, driver, runtime
        self.check(runtime.cudaSetDevice(ranks.rank))

    @staticmethod
    def check(result):
        code, *values = result
        if int(code) != 0:
            raise RuntimeError(str(code))
        return values[0] if values else None

    def shared(self, size):
        """Zeroed memory of each rank: addresses here."""
        own = int(self.check(self.runtime.cudaMalloc(size)))
        self.check(self.runtime.cudaMemset(own, 0, size))
        self.check(self.runtime.cudaDeviceSynchronize())
        handles = self.ranks.gather(bytes(self.check(self.runtime.cudaIpcGetMemHandle(own)).reserved))
        return [own if rank == self.ranks.rank else self._open(handle) for rank, handle in enumerate(handles)]

    def _open(self, handle):
        opened = self.runtime.cudaIpcMemHandle_t()
        opened.reserved = handle
        lazy = self.runtime.cudaIpcMemLazyEnablePeerAccess
        return int(self.check(self.runtime.cudaIpcOpenMemHandle(opened, lazy)))

    def fill_d16(self, address, value, count):
        self.check(self.driver.cuMemsetD16(address, value, count))


class Vllm:
    """vLLM's custom all-reduce, from FlashInfer's sources: input copied to its buffer, or a captured input registered."""

    BLOCKS = 36

    def __init__(self, ranks, largest, prepared):
        torch.ops.load_library(library(prepared, "vllm_comm"))
        self.ranks, self.largest, self.ops = ranks, largest, torch.ops.vllm_comm
        ipc = Ipc(ranks)
        self.table = torch.zeros(8 * MIB, dtype=torch.uint8, device=ranks.device)
        signals = ipc.shared(self.ops.meta_size() + largest)
        self.handle = self.ops.init_custom_ar(signals, self.table, ranks.rank, True)
        self.buffers = ipc.shared(largest)
        self.ops.register_buffer(self.handle, self.buffers)

    def fits(self, _column, size):
        return size % 16 == 0

    def _exchange(self):
        """Every rank's captured inputs, for every rank."""
        handles, offsets = zip(*self.ranks.gather(tuple(self.ops.get_graph_buffer_ipc_meta(self.handle))))
        self.ops.register_graph_buffers(self.handle, list(handles), list(offsets))

    def call(self, column, size):
        data, output = empty(self.ranks, size), empty(self.ranks, size)
        copy = (self.buffers[self.ranks.rank], self.largest) if column == "vllm_copy" else (0, 0)

        def run():
            self.ops.all_reduce(self.handle, data, output, *copy, self.BLOCKS)
            return output

        return Call(data, run, eager=False, captured=self._exchange)


class TensorRt:
    """TensorRT-LLM's all-reduce, from FlashInfer's sources: one-shot with a marker in the data, and two-shot.

    `_pdl`: with programmatic dependent launch.
    """

    ONE_SHOT_BYTES = 8 * MIB
    TWO_SHOT_BYTES = 256 * MIB
    MARKER = 0x8000

    def __init__(self, ranks, largest, prepared):
        torch.ops.load_library(library(prepared, "trt_fuse"))
        self.ranks, ipc = ranks, Ipc(ranks)
        bank = self.ONE_SHOT_BYTES * ranks.world
        self.shared = [
            ipc.shared(min(largest, self.TWO_SHOT_BYTES) * ranks.world),
            ipc.shared(2 * MIB),
            ipc.shared(3 * bank),
        ]
        ipc.fill_d16(self.shared[2][ranks.rank], self.MARKER, 3 * bank // 2)
        self.state = torch.tensor([0, 0, 0, bank, 0], dtype=torch.int32, device=ranks.device)
        addresses = [address for part in self.shared for address in part] + [self.state.data_ptr()]
        self.workspace = torch.tensor(addresses, dtype=torch.int64, device=ranks.device)
        ranks.meet()

    @staticmethod
    def shape(size):
        """Tokens and their elements."""
        elements = min(size // 2, 4096)
        return size // 2 // elements, elements

    def fits(self, column, size):
        tokens, elements = self.shape(size)
        if size % 16 or tokens * elements * 2 != size:
            return False
        if column.startswith("trt_lamport"):
            return size <= self.ONE_SHOT_BYTES
        return tokens > self.ranks.world and size <= self.TWO_SHOT_BYTES

    def call(self, column, size):
        data, output = empty(self.ranks, size), empty(self.ranks, size)
        shape, sum_in_f32, completion_at_end, all_reduce_alone = self.shape(size), True, True, 0
        pdl, one_shot = column.endswith("_pdl"), column.startswith("trt_lamport")

        def run():
            torch.ops.trt_fuse.trtllm_allreduce_fusion(
                data, self.ranks.world, self.ranks.rank, *shape, self.workspace, pdl, one_shot, completion_at_end,
                sum_in_f32, all_reduce_alone, output, *[None] * 9,
            )  # fmt: skip
            return output

        return Call(data, run)


class Sglang:
    """SGLang's all-reduce, built by its own loader: push with a marker in the data, pull from registered input.

    One symmetric allocation a rank holds the push slots, the registered input and the semaphores. `sgl_2pull` is in place.
    """

    PUSH_BYTES = 16 * MIB
    PULL_BLOCKS = 64

    def __init__(self, ranks, largest, prepared):
        sys.path.insert(0, os.path.join(prepared, "site"))
        import torch.distributed._symmetric_memory as symm
        from sglang.kernels.ops.communication import all_reduce as ops

        self.ranks, self.ops, world, device = ranks, ops, ranks.world, ranks.device
        sizes = [2 * world * self.PUSH_BYTES, largest, 128 * self.PULL_BLOCKS]
        self.memory = symm.empty(sum(sizes), dtype=torch.uint8, device=device)
        self.handle = symm.rendezvous(self.memory, dist.group.WORLD.group_name)
        everyones = [self.handle.get_buffer(rank, [sum(sizes)], torch.uint8) for rank in range(world)]
        self.memory.zero_()
        ranks.meet()

        def parts(index, *shape):
            start = sum(sizes[:index])
            return [memory[start : start + sizes[index]].view(shape) for memory in everyones]

        inputs = parts(1, largest)
        self.registered = inputs[ranks.rank]
        blocks = torch.cuda.get_device_properties(device).multi_processor_count
        self.counter = torch.zeros(blocks, dtype=torch.uint32, device=device)
        counter = self.counter.view(-1, 1).view(torch.uint8)
        push = ops.PushPlane(ranks.rank, world, workspaces=parts(0, 2 * world, self.PUSH_BYTES), counter=counter)
        pull = ops.PullPlane(ranks.rank, world, workspaces=inputs, semaphores=parts(2, self.PULL_BLOCKS, 128))
        self.comm = ops.Communicator(push=push, pull=pull)
        # What a captured pull reads: where every rank's input is.
        self.table = torch.tensor([data.data_ptr() for data in inputs], dtype=torch.uint64, device=device)
        # Rank 0 compiles, the others find it done.
        if ranks.rank == 0:
            ops.get_all_reduce_module(BF16, world)
        ranks.meet()
        ops.get_all_reduce_module(BF16, world)

    def fits(self, column, size):
        return size % 16 == 0 and (column.endswith("pull") or size <= self.PUSH_BYTES)

    def call(self, column, size):
        algorithm = {
            "sgl_1push": self.ops.AllReduceAlgo.ONE_SHOT_PUSH,
            "sgl_2push": self.ops.AllReduceAlgo.TWO_SHOT_PUSH,
            "sgl_1pull": self.ops.AllReduceAlgo.ONE_SHOT_PULL,
            "sgl_2pull": self.ops.AllReduceAlgo.TWO_SHOT_PULL,
        }[column]
        pull = column.endswith("pull")
        data = self.registered[:size].view(BF16) if pull else empty(self.ranks, size)
        table = self.table if pull else None

        def run():
            output = self.ops.custom_all_reduce(self.comm, data, algorithm, graph_params=table)
            return data if column == "sgl_2pull" else output

        return Call(data, run, in_place=column == "sgl_2pull")


FAMILIES = {"torch": Torch, "nccl_symm": NcclWindow, "vllm": Vllm, "trt": TensorRt, "sgl": Sglang}
