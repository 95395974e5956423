"""Sums by the example dlpack.rs: python3 dlpack.py LIBRARY [GPU ...]

Uses PyTorch if there is one, on the CPU, and on the GPUs that are named (or on all, by "all"); NumPy if there is one; and
always an exporter of its own, which counts how often its deleter is called. Ends with an error if a sum is wrong, if nothing
that was to be used is there, or if something is accepted that should be refused.
"""

import ctypes
import gc
import importlib.util
import sys
from importlib.machinery import ExtensionFileLoader


def load(path):
    """The module allfold_dlpack, from wherever it was built."""
    loader = ExtensionFileLoader("allfold_dlpack", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("allfold_dlpack", loader))
    loader.exec_module(module)
    return module


def value(rank, index):
    """Small integers, whose sum over all ranks every element type holds."""
    return rank + index % 8


def expected(ranks, elems):
    return [sum(value(rank, index) for rank in range(ranks)) for index in range(elems)]


def refused(call, tensors, why):
    try:
        call(tensors)
    except (ValueError, BufferError) as error:
        assert why in str(error), f"refused with {error!r}, and not with {why!r}"
        return
    raise AssertionError(f"accepted, where it should say {why!r}")


class Tensor(ctypes.Structure):
    """DLTensor and, behind it, the rest of DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


class Exporter:
    """Numbers that begin some bytes behind the start of their memory; gives a capsule of them, and counts deleters' calls."""

    def __init__(self, numbers, code=2, bits=32, device=(1, 0), stride=1, skipped=3):
        self.deleted = 0
        self.memory = (ctypes.c_float * (skipped + stride * len(numbers) + 1))(*[-1.0] * skipped)
        self.first, self.stride, self.elems = skipped, stride, len(numbers)
        self.memory[skipped : skipped + stride * len(numbers) : stride] = numbers
        self.memory[-1] = -1.0
        self.shape, self.strides = (ctypes.c_int64 * 1)(len(numbers)), (ctypes.c_int64 * 1)(stride)
        self.deleter = Tensor._fields_[-1][1](self.delete)
        self.tensor = Tensor(ctypes.addressof(self.memory), device, 1, code, bits, 1, self.shape, self.strides)
        self.tensor.byte_offset, self.tensor.deleter = 4 * skipped, self.deleter

    def delete(self, _):
        self.deleted += 1

    def capsule(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)

    def numbers(self):
        return list(self.memory[self.first : self.first + self.stride * self.elems : self.stride])


def own_capsules(module):
    for ranks in (1, 2, 3):
        for elems in (0, 1, 1000):
            exporters = [Exporter([float(value(rank, index)) for index in range(elems)]) for rank in range(ranks)]
            capsules = [exporter.capsule() for exporter in exporters]
            communicator = module.Communicator.cpu(ranks)
            communicator.all_reduce(capsules)
            for exporter in exporters:
                assert exporter.numbers() == expected(ranks, elems)
                assert exporter.memory[exporter.first - 1] == exporter.memory[-1] == -1.0
                assert exporter.deleted == 1, f"the deleter was called {exporter.deleted} times"
            refused(communicator.all_reduce, capsules, "")
            assert all(exporter.deleted == 1 for exporter in exporters), "a used capsule was used again"
    communicator = module.Communicator.cpu(2)
    good = {}
    for bad, why in [
        (dict(stride=2), "contiguous"),
        (dict(code=0), "rank 1: i32, where rank 0 gives f32"),
        (dict(bits=64), "no sums of"),
        (dict(code=1), "no sums of"),
        (dict(device=(2, 0)), "where the rank is on"),
        (dict(skipped=2.5), "not aligned"),
    ]:
        skipped = bad.pop("skipped", 3)
        exporters = [Exporter([1.0, 2.0], **good), Exporter([1.0, 2.0], **bad)]
        exporters[1].tensor.byte_offset = int(4 * skipped)
        refused(communicator.all_reduce, [exporter.capsule() for exporter in exporters], why)
        assert all(exporter.deleted == 1 for exporter in exporters), "what is refused is given back"
        assert exporters[0].numbers() == [1.0, 2.0]
    exporters = [Exporter([1.0]), Exporter([1.0, 2.0])]
    refused(communicator.all_reduce, [exporter.capsule() for exporter in exporters], "rank 1 gives 2 elements")
    refused(communicator.all_reduce, [Exporter([1.0]).capsule()], "1 tensors for 2 ranks")
    return "bare capsules"


def numpy_arrays(module):
    import numpy

    communicator = module.Communicator.cpu(3)
    for dtype in (numpy.float32, numpy.float16, numpy.int32):
        for shape in ((), (0,), (1000,), (7, 11, 13)):
            elems = numpy.prod(shape, dtype=int)
            # One element into its memory.
            whole = [numpy.array([-1] + [value(rank, i) for i in range(elems)], dtype) for rank in range(3)]
            arrays = [one[1:].reshape(shape) for one in whole]
            counts = [sys.getrefcount(array) for array in arrays]
            communicator.all_reduce(arrays)
            assert counts == [sys.getrefcount(array) for array in arrays], "an array is kept, or given back too often"
            for array in arrays:
                assert array.ravel().tolist() == expected(3, elems), (dtype, shape)
    one = numpy.ones((4, 4), numpy.float32)
    refused(communicator.all_reduce, [one, one.copy(), one.copy()[:, ::2]], "contiguous")
    refused(communicator.all_reduce, [one, one.copy(), one.astype(numpy.float64)], "no sums of")
    refused(communicator.all_reduce, [one, one.copy(), one], "overlaps")
    fixed = one.copy()
    fixed.flags.writeable = False
    refused(communicator.all_reduce, [one, one.copy(), fixed], "")
    return f"NumPy {numpy.__version__}"


def torch_tensors(module, torch, devices):
    where = [torch.device("cuda", device) for device in devices] or [torch.device("cpu")] * 3
    ranks = len(where)
    communicator = module.Communicator.cuda(devices) if devices else module.Communicator.cpu(ranks)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
        for shape in ((), (0,), (1000,), (7, 11, 13), (1000, 3001)):
            elems = torch.Size(shape).numel()
            # `expected`, but fast.
            sums = torch.arange(elems).remainder(8) * ranks + ranks * (ranks - 1) // 2
            sums = sums.to(dtype).reshape(shape)
            tensors = []
            for rank, device in enumerate(where):
                tensor = torch.arange(elems, device=device).remainder(8) + rank
                # On GPUs this is still under way when the tensors are exported.
                for _ in range(100 if devices else 0):
                    tensor = tensor + 1 - 1
                tensors.append(tensor.to(dtype).reshape(shape))
            communicator.all_reduce(tensors)
            assert all(torch.equal(tensor.cpu(), sums) for tensor in tensors), (dtype, shape)
    one = torch.ones(4, 4, device=where[0])
    others = [torch.ones(4, 4, device=device) for device in where[1:]]
    refused(communicator.all_reduce, [one.t()[:, ::2], *others], "contiguous")
    refused(communicator.all_reduce, [one.double(), *others], "no sums of")
    return f"PyTorch {torch.__version__} on {where}"


def main(library, *gpus):
    module = load(library)
    done = [own_capsules(module)]
    try:
        done.append(numpy_arrays(module))
    except ModuleNotFoundError as missing:
        print(f"SKIPPED: {missing}")
    try:
        import torch
    except ModuleNotFoundError as missing:
        if gpus:
            raise
        print(f"SKIPPED: {missing}")
    else:
        done.append(torch_tensors(module, torch, []))
        if gpus:
            devices = range(torch.cuda.device_count()) if gpus == ("all",) else map(int, gpus)
            done.append(torch_tensors(module, torch, list(devices)))
    gc.collect()
    for what in done:
        print(f"{what}: every sum is right")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
