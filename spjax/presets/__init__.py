"""Every published experiment as typed configuration: `preset` returns what `spjax.train` takes."""

from typing import TYPE_CHECKING

from spjax.presets.table import preset_names

if TYPE_CHECKING:
    from spjax.presets.base import preset

__all__ = ["preset", "preset_names"]


def __getattr__(name: str) -> object:
    """Imports what needs JAX when it is asked for."""
    if name != "preset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spjax.presets.base import preset

    return preset
