"""Where numbers come from: the versions, the commit and the device that a run or a record names."""

import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import spjax
from spjax.cores import num_cores

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy", "mujoco")


def versions(packages: Sequence[str] = ()) -> dict[str, str | None]:
    """Returns the versions of what the numbers depend on, these packages too.

    None stands for one that is not installed.
    """
    return {"python": platform.python_version(), "spjax": spjax.__version__} | {
        name: _version(name) for name in (*PACKAGES, *packages)
    }


def commit() -> str | None:
    """Returns the short git hash of the source, -dirty if a tracked file changed; None outside git."""
    here = Path(__file__).resolve()
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None  # installed somewhere inside another project's checkout
    return _git(here.parent, "describe", "--always", "--dirty", "--exclude", "*")


def device() -> str:
    """Returns what JAX computes on, for example "2 CPU cores (AMD EPYC)" or "4 x NVIDIA H200"."""
    import jax  # reading records and run folders must not start JAX

    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        cores = num_cores()
        return f"{cores} CPU core{'' if cores == 1 else 's'} ({cpu_model()})"
    kind = devices[0].device_kind
    return kind if len(devices) == 1 else f"{len(devices)} x {kind}"


def cpu_model() -> str:
    """Returns the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    return models[0] if models else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
