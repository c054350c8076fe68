"""Every published experiment as typed configuration: `preset` returns what `spjax.train` takes."""

from spjax.presets.base import preset, preset_names

__all__ = ["preset", "preset_names"]
