"""Measurements behind the numbers of the README; not part of the package."""
