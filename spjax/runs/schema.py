"""What config.json and summary.json say: one description of a run, for its writer and every reader.

Format 2 spells each part by its kind, its name and its settings, parts inside parts the same way.
An infinite number is the string "inf" there, since JSON has none. Format 1 is read too: it names
parts beside their settings, by other names (`spjax.runs.renamed`), in Python's JSON, which has
infinite numbers.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from spjax.runs import renamed

FORMAT_VERSION = 2
PARTS = ("task", "agent", "teacher")

Setting = int | float | str | None | tuple[int | float, ...]

# what folders of format 1 lack that were written before there was a choice
_SINCE: dict[str, object] = {
    "start": "initial",
    "hold_position": False,
    "plane": ("x", "y"),
    "scenery_name": "wall",
    "rollouts_per_iteration": None,
    "goal": None,
}
# what folders of format 2 lack that were written before there was a choice, by part
_ADDED: dict[tuple[str, str], dict[str, Setting]] = {
    ("agent", "ppo"): {
        "normalize_observations": False,
        "normalize_rewards": False,
        "clip_value": None,
    },
    ("agent", "trpo"): {"normalize_observations": False, "normalize_rewards": False},
    ("teacher", "self-paced"): {"learning_progress": None, "progress_capacity": 500},
}
_INFINITE = {math.inf: "inf", -math.inf: "-inf"}
_SPELLED = {word: number for number, word in _INFINITE.items()}


@dataclass(frozen=True)
class Lane:
    """One training run of the folder: one seed with one value of every swept setting."""

    seed: int
    settings: Mapping[
        str, Setting
    ]  # the swept ones, for example {"teacher.schedule.zeta": 0.8}


@dataclass(frozen=True)
class Contexts:
    """The box of tasks."""

    names: tuple[str, ...]
    units: tuple[str, ...]  # "1" for a dimensionless context
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of a distribution with independent dimensions, context units."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Preset:
    """Which published experiment a run began as; its settings may have been changed since."""

    schedule: str | None
    variant: str
    start: (
        str | None
    )  # where the teacher's contexts start: "initial", "target", or none


class Estimate(NamedTuple):
    """A mean with its standard error."""

    mean: float
    standard_error: float


@dataclass(frozen=True)
class Reference:
    """Published results of the very experiment that the folder holds."""

    final: Estimate  # return on the target tasks
    iterations: Estimate | None  # to the threshold that belongs to the final return
    num_iterations: int
    last_evaluated: int  # iteration from which on an evaluation counts as final
    source: str  # for example "Klink et al. (2021)"
    metric: str = "discounted_return"  # the evaluation column that `final` is of

    def covers(self, iteration: int) -> bool:
        """Says whether a run that was last evaluated here was as long as the published ones."""
        return self.last_evaluated <= iteration <= self.num_iterations


@dataclass(frozen=True)
class Frozen:
    """A lane that stopped learning because its parameters became non-finite."""

    lane: int
    seed: int
    iteration: int


@dataclass(frozen=True)
class Summary:
    """What summary.json says; written when the run ends."""

    finished: bool
    wall_seconds: float | None  # None where the run was resumed
    compile_seconds: float | None
    frozen: tuple[Frozen, ...]

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Summary":
        """Returns what the parsed file says."""
        frozen = tuple(Frozen(**lane) for lane in raw["frozen"])
        return cls(raw["finished"], raw["wall_seconds"], raw["compile_seconds"], frozen)


@dataclass(frozen=True)
class RunRecord:
    """What config.json says."""

    # the experiment
    task: str  # these three are names
    agent: str
    teacher: str
    settings: Mapping[
        str, Mapping[str, object]
    ]  # of the parts named so: "task", "agent", "teacher"
    num_iterations: int
    evaluate_every: int  # iterations
    evaluation_episodes: int
    hold_position: (
        bool  # whether the policy was cloned to the zero action before training
    )
    seeds: tuple[int, ...]
    over: Mapping[str, tuple[Setting, ...]]  # swept setting -> its values
    lanes: tuple[Lane, ...]

    # what pictures need
    steps_per_iteration: int | None  # environment steps; None where their number varies
    rollouts_per_iteration: int | None  # of episodic agents
    context_space: Contexts
    target: Moments
    initial: Moments
    scenery: tuple[
        tuple[tuple[float, float], ...], ...
    ]  # polylines of the target task, metres
    goal: tuple[float, float] | None  # position that the target task asks for, metres
    plane: tuple[str, str]  # axes of trajectories, scenery and goal
    scenery_name: str

    # where it comes from
    versions: Mapping[str, str | None]
    device: str | None
    commit: str | None
    command: str | None
    created: str | None
    uses: tuple[
        Mapping[str, str], ...
    ] = ()  # files beside the built-in parts: module, file, sha256
    preset: Preset | None = None
    reference: Reference | None = None
    halving: Mapping[str, float] | None = None  # when settings that are behind stop

    # the format that it was read from; the first does not have all settings
    format_version: int = field(default=FORMAT_VERSION, compare=False)

    @property
    def task_name(self) -> str:
        """The task in tables and titles; one that is made of another goes by that one's name."""
        inner = self.settings["task"].get("of")
        return str(inner["task"]) if isinstance(inner, Mapping) else self.task

    @property
    def schedule(self) -> str | None:
        """The name of the teacher's schedule, None where it has none."""
        schedule = self.settings["teacher"].get("schedule")
        return str(schedule["schedule"]) if isinstance(schedule, Mapping) else None

    @property
    def variant(self) -> str | None:
        """Which variant of a preset the run began as, None where it began as none."""
        return self.preset.variant if self.preset else None

    @property
    def start(self) -> str | None:
        """Where the teacher's contexts start in the preset: "initial", "target", or None."""
        return self.preset.start if self.preset else None

    def flat_settings(self) -> dict[str, Setting]:
        """Returns the settings that were not swept, of nested parts too: "teacher.schedule.zeta" and its value."""
        return {
            name: value
            for kind in PARTS
            for name, value in _flat(kind, self.settings[kind])
            if name not in self.over
        }

    @property
    def completed(self) -> "RunRecord":
        """The same with the settings that parts have got since, as the run had them; for comparisons."""
        names = {"task": self.task, "agent": self.agent, "teacher": self.teacher}
        settings = {
            kind: {**_ADDED.get((kind, names[kind]), {}), **self.settings[kind]}
            for kind in PARTS
        }
        return dataclasses.replace(self, settings=settings)

    def to_json(self) -> dict[str, Any]:
        """Returns what config.json holds, in format 2; strict JSON, infinite settings too."""
        fields = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self)
        }
        parts = {kind: {kind: fields[kind], **self.settings[kind]} for kind in PARTS}
        content = {
            "format_version": FORMAT_VERSION,
            "config": parts
            | {name: fields[name] for name in _CONFIG}
            | ({"halving": self.halving} if self.halving else {}),
            "preset": self.preset and dataclasses.asdict(self.preset),
            "reference": self.reference and _reference_json(self.reference),
            "lanes": [dataclasses.asdict(lane) for lane in self.lanes],
            "context_space": dataclasses.asdict(self.context_space),
            "target": dataclasses.asdict(self.target),
            "initial": dataclasses.asdict(self.initial),
        }
        content |= {name: fields[name] for name in _PLAIN}
        return {name: _spelled(value) for name, value in content.items()}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "RunRecord":
        """Returns what the parsed file says, in format 1 or 2.

        Raises:
            ValueError: another format version.
            KeyError, TypeError, AttributeError: an entry is missing, or of another type.
        """
        version = raw["format_version"]
        if version not in (1, FORMAT_VERSION):
            readable = f"this spjax reads 1 and {FORMAT_VERSION}"
            advice = "use the spjax that wrote it, or train again"
            raise ValueError(
                f"config.json has format version {version!r}, {readable}; {advice}"
            )

        entries = _upgraded(raw) if version == 1 else raw
        content = {name: _restored(entry) for name, entry in entries.items()}
        config = content["config"]
        names = {kind: config[kind].pop(kind) for kind in PARTS}
        return cls(
            **names,
            settings={kind: config[kind] for kind in PARTS},
            lanes=tuple(Lane(**lane) for lane in content["lanes"]),
            context_space=Contexts(**content["context_space"]),
            target=Moments(**content["target"]),
            initial=Moments(**content["initial"]),
            preset=content["preset"] and Preset(**content["preset"]),
            reference=content["reference"] and _reference(content["reference"]),
            halving=config.get("halving"),
            format_version=version,
            **{name: config[name] for name in _CONFIG},
            **{name: content[name] for name in _PLAIN},
        )


_CONFIG = (
    *("num_iterations", "evaluate_every", "evaluation_episodes"),
    *("hold_position", "seeds", "over"),
)
_PLAIN = (
    *("uses", "steps_per_iteration", "rollouts_per_iteration"),
    *("scenery", "goal", "plane", "scenery_name"),
    *("versions", "device", "commit", "command", "created"),
)


def _upgraded(raw: Mapping[str, Any]) -> dict[str, object]:
    """Returns what a file of format 1 says in the shape and the names of format 2."""
    old_names = raw["agent"], raw["teacher"]
    agent, teacher = renamed.names(*old_names)
    settings = renamed.settings(raw)

    def swept(name: str, value: object) -> tuple[str, object]:
        return renamed.setting(*old_names, name, value)

    over: dict[str, list[object]] = {}
    for name, values in raw["over"].items():
        pairs = [swept(name, value) for value in values]
        over[pairs[0][0]] = [value for _, value in pairs]
    lanes = [
        {
            "seed": lane["seed"],
            "settings": dict(swept(*item) for item in lane["settings"].items()),
        }
        for lane in raw["lanes"]
    ]

    since = {**_SINCE, **raw, "over": over}
    config = {
        "task": {"task": raw["env"], **settings["task"]},
        "agent": {"agent": agent, **settings["agent"]},
        "teacher": {"teacher": teacher, **settings["teacher"]},
    }
    config |= {name: since[name] for name in _CONFIG}
    preset = {name: since[name] for name in ("schedule", "variant", "start")}
    return {
        **since,
        "config": config,
        "lanes": lanes,
        "uses": [],
        "preset": preset,
        "reference": None,
    }


def _reference(raw: Mapping[str, Any]) -> Reference:
    final, iterations = Estimate(**raw["final"]), raw["iterations"]
    return Reference(
        **{**raw, "final": final, "iterations": iterations and Estimate(**iterations)}
    )


def _flat(name: str, value: object) -> Iterator[tuple[str, Setting]]:
    if isinstance(value, Mapping):
        for inner in value:
            yield from _flat(f"{name}.{inner}", value[inner])
    else:
        yield name, cast(Setting, value)


def _reference_json(reference: Reference) -> dict[str, object]:
    iterations = reference.iterations
    return {
        **dataclasses.asdict(reference),
        "final": reference.final._asdict(),
        "iterations": iterations and iterations._asdict(),
    }


def _spelled(value: object) -> object:
    """Returns a tree of plain values as strict JSON can hold it."""
    if isinstance(value, Mapping):
        return {name: _spelled(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(entry) for entry in value]
    return _INFINITE.get(value, value) if isinstance(value, float) else value


def _restored(value: object) -> Any:
    """Returns what was spelled, with the lists of JSON as tuples."""
    if isinstance(value, dict):
        return {name: _restored(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_restored(entry) for entry in value)
    return _SPELLED.get(value, value) if isinstance(value, str) else value
