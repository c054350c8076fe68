"""Every published experiment as typed configuration: `preset` returns what `spjax.train` takes."""

from spjax.presets.base import STARTS, preset, preset_names, starts_of

__all__ = ["STARTS", "preset", "preset_names", "starts_of"]
