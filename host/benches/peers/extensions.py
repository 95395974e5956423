"""Builds a peer's kernels as an extension of PyTorch: `extensions.py PREPARED NAME`. Done once for a prepared folder."""

import os
import sys

SOURCES = {"vllm_comm": "vllm_custom_all_reduce.cu", "trt_fuse": "trtllm_allreduce_fusion.cu"}
FLAGS = [
    "-O3", "-std=c++17", "--expt-relaxed-constexpr", "-DENABLE_BF16", "-DFLASHINFER_ENABLE_F16", "-DFLASHINFER_ENABLE_BF16",
    "-DFLASHINFER_ENABLE_FP8_E4M3", "-DFLASHINFER_ENABLE_FP8_E5M2", "-U__CUDA_NO_HALF_OPERATORS__",
    "-U__CUDA_NO_HALF_CONVERSIONS__", "-U__CUDA_NO_HALF2_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
]  # fmt: skip


def folder(prepared, name):
    return os.path.join(prepared, "built", name)


def library(prepared, name):
    """The built extension's file."""
    return os.path.join(folder(prepared, name), name + ".so")


def build(prepared, name):
    import torch
    from torch.utils.cpp_extension import CUDA_HOME, load

    major, minor = torch.cuda.get_device_capability()
    # Hopper's own instructions are in the target with the letter.
    target = f"{major}{minor}" + "a" * (major >= 9)
    sources = os.path.join(prepared, "flashinfer")
    os.makedirs(folder(prepared, name), exist_ok=True)
    load(
        name,
        [os.path.join(sources, "csrc", SOURCES[name])],
        extra_include_paths=[os.path.join(sources, "include"), os.path.join(sources, "csrc")],
        extra_cuda_cflags=[*FLAGS, f"-gencode=arch=compute_{target},code=sm_{target}"],
        extra_ldflags=[f"-L{CUDA_HOME}/lib64/stubs", "-L/usr/local/cuda/lib64/stubs", "-lcuda"],
        build_directory=folder(prepared, name),
        is_python_module=False,
    )


if __name__ == "__main__":
    build(*sys.argv[1:])
