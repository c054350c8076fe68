"""What settings are where nobody changes them: of the parts, and of the preset. This asks them, and so imports JAX."""

from collections.abc import Mapping

from spjax import catalogue
from spjax.analysis.text import setting_text
from spjax.runs.schema import PARTS, RunRecord

Settings = Mapping[str, str]  # "agent.learning_rate" -> its value, as text

RUN = ("num_iterations", "evaluate_every", "evaluation_episodes", "hold_position")


def defaults_of(record: RunRecord) -> Settings | None:
    """Returns the defaults of a run's parts, nested ones too; None where they are not to be found.

    They are not for a run with parts of the user's own that are not loaded, and without JAX. What the task fills in has none.
    """
    try:
        found: dict[str, str] = {}
        for kind in PARTS:
            spelled = {kind: getattr(record, kind), **record.settings[kind]}
            found |= _own(spelled, kind)  # imports JAX, with the parts
    except (ImportError, ValueError):
        return None
    return found


def preset_of(record: RunRecord) -> Settings | None:
    """Returns the settings of the preset that a run began as, None where it began as none or that is not known here."""
    if record.preset is None:
        return None
    try:
        from spjax.presets import preset

        names = (record.task_name, record.agent, record.teacher, record.schedule)
        config = preset(*names, variant=record.preset.variant, start=record.start)
        spelled = config.spelled()
    except (ImportError, ValueError):
        return None
    return texts({name: spelled[name] for name in (*RUN, *PARTS)})


def texts(settings: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Returns nested settings by dotted names, as text; a table of many rows as how many there are."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= texts(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = _text(value)
    return found


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        if len(value) > 12:
            return f"{len(value)} values"
        return f"({', '.join(map(_text, value))})"
    return setting_text(value)


def _own(spelled: Mapping[str, object], prefix: str) -> dict[str, str]:
    """Returns the defaults of a part that is spelled as its kind, its name and its settings."""
    (kind, name), *settings = spelled.items()
    if kind == "distribution":
        return {}
    declared = catalogue.find(kind, str(name)).cls.declared()
    found: dict[str, str] = {}
    for setting, value in settings:
        place = f"{prefix}.{setting}"
        if isinstance(value, Mapping):
            found |= _own(value, place)
        elif setting in declared and _is_plain(declared[setting].default):
            found[place] = _text(declared[setting].default)
    return found


def _is_plain(default: object) -> bool:
    """Says whether a default is a number, a word or several of them, or None."""
    return default is None or isinstance(default, int | float | str | tuple)
