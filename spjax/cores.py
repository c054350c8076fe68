"""The processor cores that this process may use."""

import os


def num_cores() -> int:
    """Returns how many there are; fewer than the machine has where the process is bound to some of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
