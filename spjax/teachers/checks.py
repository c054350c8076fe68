"""Checks of settings that several curricula share."""


def check_whole(field: str, value: int | float, least: int) -> None:
    """Raises ValueError with one clear sentence where a setting is not a whole number of at least `least`."""
    if not isinstance(value, int) or value < least:
        raise ValueError(f"teacher.{field} must be a whole number of at least {least}, got {value}")
