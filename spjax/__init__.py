"""Self-paced curricula for reinforcement learning, jitted end to end (Klink et al., JMLR 22, 2021)."""

TYPE_CHECKING = (
    False  # as in typing, which takes longer to import than the first help to print
)
if TYPE_CHECKING:
    from spjax.outside.teacher import NumpyTeacher
    from spjax.presets import preset
    from spjax.reports.write import report
    from spjax.training.policy import load_policy
    from spjax.training.train import resume, train

__version__ = "0.1.0"
__all__ = ["NumpyTeacher", "load_policy", "preset", "report", "resume", "train"]

_HOMES = {
    "NumpyTeacher": "spjax.outside.teacher",
    "load_policy": "spjax.training.policy",
    "preset": "spjax.presets",
    "report": "spjax.reports.write",
    "resume": "spjax.training.train",
    "train": "spjax.training.train",
}


def __getattr__(name: str) -> object:
    """Imports JAX and all that trains only when asked for it, so that the command line answers at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
