"""Settings and quantities as text, for the terminal and for pictures."""

from collections.abc import Mapping

from spjax.runs.schema import Setting

# by the last name of a setting, whatever part it belongs to
SYMBOLS: Mapping[str, str] = {
    "zeta": "$\\zeta$",
    "offset": "$K_\\alpha$",
    "warmup": "$K_{offset}$",
    "performance_bound": "$V_{LB}$",
    "max_kl": "$\\epsilon$",
    "std_floor": "$\\sigma_{LB}$",
}


def setting_text(value: object) -> str:
    """Returns the value of a setting, as short as it can be read."""
    if isinstance(value, tuple):
        return f"({', '.join(map(setting_text, value))})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def symbol(name: str) -> str:
    """Returns the symbol of a setting such as "teacher.schedule.zeta"; its last name if it has none."""
    last = name.rpartition(".")[2]
    return SYMBOLS.get(last, last)


def settings_label(settings: Mapping[str, Setting]) -> str:
    """Returns for example "ζ = 0.8, K_α = 20", in symbols as Matplotlib typesets them."""
    return ", ".join(
        f"{symbol(name)} = {setting_text(value)}" for name, value in settings.items()
    )


def settings_suffix(settings: Mapping[str, Setting]) -> str:
    """Returns what the name of a picture of these swept settings ends in."""
    return "".join(f"-{name}-{setting_text(value)}" for name, value in settings.items())


def axis_label(name: str, unit: str) -> str:
    """Returns "name [unit]", without brackets for a dimensionless quantity."""
    return name if unit == "1" else f"{name} [{unit}]"
