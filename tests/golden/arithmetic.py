"""One arithmetic for all processors.

Libraries choose their kernels by the processor, and kernels add in different orders: the last digits of scores differ,
so do near ties, thresholds of trained weights, and digests of files. The libraries read from the environment which
instructions they may use, once, when they are loaded. So the recording runs in a process whose environment allows only
instructions that every x86-64 processor of the last fifteen years has.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

_SETTINGS = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "FAISS_SIMD_LEVEL": "NONE",
    "FAISS_OPT_LEVEL": "generic",
    "ARROW_USER_SIMD_LEVEL": "NONE",
    # The C library: exp, log, pow and sine have variants with fused multiplication. The second names are of glibc 2.32.
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-FMA_Usable,-FMA4_Usable,-AVX2_Usable",
    # Sums of threads depend on their number.
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"), "1"
    ),
}
_KERNEL_FUNCTIONS = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename")


def fixed_settings() -> dict[str, str]:
    """Return the environment variables that fix the kernels of all libraries."""
    extensions = _numpy_extensions()
    dispatched = sorted({*extensions.get("found", ()), *extensions.get("not found", ())})
    return {**_SETTINGS, "NPY_DISABLE_CPU_FEATURES": " ".join(dispatched)}


def is_fixed(environment: Mapping[str, str]) -> bool:
    """Return whether a process with an environment calculates alike on every processor."""
    return all(environment.get(name) == value for name, value in fixed_settings().items())


def restart_with_fixed_kernels() -> None:
    """Begin this program again with fixed kernels, unless it has them."""
    if not is_fixed(os.environ):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **fixed_settings()})


def kernels_in_use() -> dict[str, str]:
    """Return which kernels the loaded libraries chose: NumPy, faiss, and each OpenBLAS by its file."""
    import faiss

    kernels = {"numpy": " ".join(_numpy_extensions().get("found", ()))}
    if hasattr(faiss, "SIMDConfig"):
        kernels["faiss"] = faiss.SIMDConfig.get_level_name()
    for name in sorted(set(re.findall(r"\S*openblas\S*", Path("/proc/self/maps").read_text()))):
        kernels[Path(name).name.partition("-")[0]] = _kernel_of(name)
    return kernels


def _numpy_extensions() -> dict[str, list[str]]:
    """Return the instruction sets that NumPy uses beyond its baseline (`found`), and those that it does not."""
    # The types of NumPy declare the result as None for every mode.
    extensions: dict[str, list[str]] = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[call-overload]
    return extensions


def _kernel_of(library: str) -> str:
    loaded = ctypes.CDLL(library)
    function = next(getattr(loaded, name) for name in _KERNEL_FUNCTIONS if hasattr(loaded, name))
    function.restype = ctypes.c_char_p
    return str(function().decode())
