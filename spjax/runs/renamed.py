"""What files of format 1 called otherwise, in the one place that knows: names of parts, names of settings, and K_alpha.

Of the parts (C-REPS, SPGL, and the curricula of episodic agents) the names are new. Of the settings, alpha's rule has moved
into a schedule, SPRL's into its teacher, and means and standard deviations into distributions. K_alpha counted otherwise:
alpha was 0 in the first K_alpha - 1 updates of SPDL, and in the first K_alpha + 1 of SPRL; now in K_alpha of both.
"""

from collections.abc import Mapping
from typing import Any

_AGENTS = {"creps": "c-reps"}
_TEACHERS = {"self-paced-gaussian": "spgl"}
_TEACHERS_OF = {  # agents whose curricula went by the names of others
    ("sprl", "self-paced"): "self-paced-joint",
    ("creps", "goal-gan"): "goal-gan-episodic",
    ("cma-es", "default"): "target-mean",
}

_PARTS = {"env": "task"}
_SCHEDULES = {
    "proportion": {
        "kl_proportion": "zeta",
        "offset": "offset",
        "max_alpha": "max_alpha",
    },
    "bound": {"performance_bound": "performance_bound"},
}
_SCHEDULED = {
    old: f"schedule.{new}"
    for names in _SCHEDULES.values()
    for old, new in names.items()
}
_JOINT = (
    "kl_proportion",
    "offset",
    "max_alpha",
    "std_floor",
    "floor_kl",
    "alpha_from",
)  # of SPRL, once of the agent
_MOMENTS = {
    f"{distribution}_{moment}": f"{distribution}.{moment}"
    for distribution in ("initial", "target")
    for moment in ("mean", "std")
}


def names(agent: str, teacher: str) -> tuple[str, str]:
    """Returns today's names of agent and teacher."""
    own = _TEACHERS_OF.get((agent, teacher))
    return _AGENTS.get(agent, agent), own or _TEACHERS.get(teacher, teacher)


def setting(agent: str, teacher: str, name: str, value: Any) -> tuple[str, Any]:
    """Returns today's name and value of a setting.

    Args:
        agent: its name then.
        teacher: its name then.
        name: of the setting then, such as "teacher.kl_proportion".
        value: its value then.
    """
    part, _, last = name.partition(".")
    part = _PARTS.get(part, part)
    if (part, agent) == ("agent", "sprl") and last in _JOINT:
        value = value + 1 if last == "offset" else value
        return f"teacher.{_SCHEDULED.get(last, last)}", value
    if (part, teacher) == ("teacher", "self-paced") and last in _SCHEDULED:
        value = max(0, value - 1) if last == "offset" else value
        return f"teacher.{_SCHEDULED[last]}", value
    if part == "teacher" and last in _MOMENTS:
        return f"teacher.{_MOMENTS[last]}", value
    return f"{part}.{last}", value


def settings(raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the settings of task, agent and teacher that a configuration of format 1 says, parts inside parts."""
    agent, teacher = raw["agent"], raw["teacher"]
    found: dict[str, dict[str, Any]] = {"task": {}, "agent": {}, "teacher": {}}
    schedule = "proportion" if agent == "sprl" else raw["schedule"]
    if schedule is not None:
        found["teacher"]["schedule"] = {"schedule": schedule}

    for old_part, old_settings in raw["settings"].items():
        for old, old_value in old_settings.items():
            name, value = setting(agent, teacher, f"{old_part}.{old}", old_value)
            part, *path = name.split(".")
            if name == "teacher.schedule" or (old in _MOMENTS and value is None):
                continue  # is there, or is the task's
            if path[0] == "schedule" and old not in _SCHEDULES[schedule]:
                continue  # of the schedule that was not chosen
            if old in _MOMENTS:
                found[part].setdefault(path[0], {"distribution": "gaussian"})
            holder = found[part][path[0]] if len(path) == 2 else found[part]
            holder[path[-1]] = value
    return found
