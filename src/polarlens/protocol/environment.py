"""What a run ran on: versions, hardware, peak memory."""

import os
import platform
import resource
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from polarlens.version import __version__

_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pandas", "pyarrow", "gguf", "accelerate", "ray")


def versions() -> dict[str, str]:
    """Versions of Python, Polarlens and the packages that numbers may depend on."""
    found = {"python": platform.python_version(), "polarlens": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware(device: torch.device) -> dict[str, Any]:
    """Machine, processor, threads and accelerator."""
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "accelerator": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    }


def processor() -> str:
    """The processor's model, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_memory_bytes() -> int:
    """Largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
