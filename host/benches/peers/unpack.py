"""Unpacks what `prepare` fetched, no more of it than the benchmark needs: `unpack.py FETCHED FOLDER`."""

import glob
import os
import shutil
import sys
import zipfile

CSRC = (
    "vllm_custom_all_reduce.cu",
    "trtllm_allreduce_fusion.cu",
    "pytorch_extension_utils.h",
    "pytorch_conversion_utils.h",
)
INCLUDE = ("include/flashinfer", "3rdparty/spdlog/include/spdlog")
SGLANG = (
    "sglang/kernels/jit/__init__.py",
    "sglang/kernels/jit/utils/",
    "sglang/kernels/jit/include/",
    "sglang/kernels/jit/csrc/distributed/",
    "sglang/kernels/kernel_api_logging.py",
    "sglang/kernels/ops/communication/all_reduce.py",
)
# What SGLang's loader imports from the rest of SGLang, as far as it uses it.
STAND_INS = {
    "__init__.py": "",
    "kernels/__init__.py": "",
    "kernels/ops/__init__.py": "",
    "kernels/ops/communication/__init__.py": "",
    "srt/__init__.py": "",
    "srt/utils/__init__.py": "",
    "srt/utils/common.py": """
def is_cuda():
    return True


def get_cuda_version():
    import torch

    return tuple(map(int, torch.version.cuda.split(".")))
""",
    "srt/distributed/__init__.py": "",
    "srt/distributed/device_communicators/__init__.py": "",
    "srt/distributed/device_communicators/cuda_wrapper.py": """
def find_loaded_library(name):
    return None
""",
    "srt/environ.py": """
class _Value:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


class _Values:
    def __getattr__(self, name):
        return _Value(2 if name.endswith("KEEP") else None)


envs = _Values()
""",
    "utils.py": """
def is_in_ci():
    return False
""",
}

# FlashInfer's copy of vLLM's export of captured buffers passes on a base address that it never asked for.
UNSET_BASE = "      // note: must share the base address of each allocation, or we get wrong\n"
ASKS_FOR_BASE = """\
      {
        size_t bytes;
        CUdeviceptr base;
        if (cuMemGetAddressRange(&base, &bytes, (CUdeviceptr)ptr) != CUDA_SUCCESS)
          throw std::runtime_error("a captured buffer has no base address");
        base_ptr = (void*)base;
      }
"""


def only(pattern):
    found = glob.glob(pattern)
    if len(found) != 1:
        sys.exit(f"{pattern} should be one and is {len(found)}")
    return found[0]


def flashinfer(fetched, folder):
    root = only(f"{fetched}/flashinfer_python-*/")
    for path in INCLUDE:
        shutil.copytree(f"{root}/{path}", f"{folder}/include/{os.path.basename(path)}")
    os.makedirs(f"{folder}/csrc")
    for name in CSRC:
        shutil.copy(f"{root}/csrc/{name}", f"{folder}/csrc/{name}")
    header = f"{folder}/include/flashinfer/comm/vllm_custom_all_reduce.cuh"
    with open(header, encoding="utf-8") as file:
        text = file.read()
    if text.count(UNSET_BASE) != 1:
        sys.exit(f"{header} is not the one that this script mends")
    with open(header, "w", encoding="utf-8") as file:
        file.write(text.replace(UNSET_BASE, ASKS_FOR_BASE + UNSET_BASE))


def sglang(fetched, folder):
    for name, wanted in (("sglang", SGLANG), ("apache_tvm_ffi", ("",)), ("msgspec", ("",))):
        with zipfile.ZipFile(only(f"{fetched}/{name}-*.whl")) as wheel:
            wheel.extractall(folder, [path for path in wheel.namelist() if path.startswith(wanted)])
    for path, text in STAND_INS.items():
        path = f"{folder}/sglang/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.lstrip())


if __name__ == "__main__":
    FETCHED, FOLDER = sys.argv[1:]
    flashinfer(FETCHED, f"{FOLDER}/flashinfer")
    sglang(FETCHED, f"{FOLDER}/site")
