"""Presets as a training sees them: every setting in place, the teacher bound to the task."""

from spjax.presets import preset


def resolved(*names, **choices):
    """Returns the preset of these names, checked."""
    config = preset(*names, **choices)
    config.check()
    return config.resolved


def moments(distribution):
    """Returns means and standard deviations of a Gaussian with independent dimensions, as they were typed."""
    settings = distribution.settings()
    return settings["mean"], settings["std"]
