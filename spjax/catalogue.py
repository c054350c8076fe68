"""What there is to choose from: every part by kind and name.

Built-in parts stand in a table and are imported when they are asked for. A user's parts register themselves when their file
is loaded: by an import, by ``--use mine.py``, by the entry-point group "spjax", or by a run folder that was trained with them.
A class that is not in the catalogue, or not what its name says, is refused; nothing is ever put in its place.
"""

import dataclasses
import hashlib
import importlib
import importlib.util
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from spjax.settings import (
    Part,
    Value,
    a_kind,
    check,
    help_text,
    meant,
    nearest,
    with_nested,
)

_TEACHERS = "spjax.teachers"
_PICTURES = "spjax.analysis.pictures"
_BUILT_IN: Mapping[str, Mapping[str, str]] = {  # kind -> name -> module:class
    "task": {
        "point-mass-3d": "spjax.envs.point_mass:PointMass",
        "point-mass-2d": "spjax.envs.point_mass:PointMass",
        "ball-catching": "spjax.envs.ball_catching:BallCatching",
        "gate-precision": "spjax.envs.gate:Gate",
        "gate-global": "spjax.envs.gate:Gate",
        "ball-in-a-cup": "spjax.envs.ball_in_a_cup:BallInACup",
        "ant": "spjax.envs.ant:Ant",
        "two-route-gate": "spjax.envs.two_route_gate:TwoRouteGate",
        "reacher": "spjax.envs.reacher:Reacher",
        "reacher-step": "spjax.envs.reacher:ReacherStep",
        "policy-search": "spjax.envs.adapters.policy_search:PolicySearch",
    },
    "agent": {
        "ppo": "spjax.agents.step_based.ppo:PPO",
        "trpo": "spjax.agents.step_based.trpo:TRPO",
        "sac": "spjax.agents.step_based.sac:SAC",
        "sprl": "spjax.agents.episodic.sprl:SPRL",
        "c-reps": "spjax.agents.episodic.creps:CREPS",
        "cma-es": "spjax.agents.episodic.cma_es:CMAES",
    },
    "teacher": {
        "self-paced": f"{_TEACHERS}.self_paced:SelfPaced",
        "self-paced-particles": f"{_TEACHERS}.particles:SelfPacedParticles",
        "self-paced-joint": f"{_TEACHERS}.self_paced_joint:SelfPacedJoint",
        "spgl": f"{_TEACHERS}.closed_form:SPGL",
        "doraemon": f"{_TEACHERS}.doraemon:DORAEMON",
        "currot": f"{_TEACHERS}.currot:CURROT",
        "alp-gmm": f"{_TEACHERS}.alp_gmm.teacher:ALPGMM",
        "goal-gan": f"{_TEACHERS}.goal_gan.step_based:GoalGAN",
        "goal-gan-episodic": f"{_TEACHERS}.goal_gan.episodic:EpisodicGoalGAN",
        "sagg-riac": f"{_TEACHERS}.sagg_riac.teacher:SAGGRIAC",
        "default": f"{_TEACHERS}.target:Target",
        "target-mean": f"{_TEACHERS}.target:TargetMean",
        "random": f"{_TEACHERS}.uniform:Random",
    },
    "schedule": {
        "proportion": "spjax.self_paced.schedules:Proportion",
        "bound": "spjax.self_paced.schedules:Bound",
        "linear": "spjax.self_paced.annealed:Linear",
        "geometric": "spjax.self_paced.annealed:Geometric",
        "effective-sample-size": "spjax.self_paced.adaptive_tempering:EffectiveSampleSize",
        "constant-speed": "spjax.self_paced.adaptive_tempering:ConstantSpeed",
        "chance-bound": "spjax.self_paced.cautious:ChanceBound",
        "rollback": "spjax.self_paced.cautious:Rollback",
        "smooth-proportion": "spjax.self_paced.smooth:SmoothProportion",
    },
    "distribution": {
        "gaussian": "spjax.contexts.gaussian:Gaussian",
        "discrete": "spjax.contexts.discrete:Discrete",
        "truncated-gaussian": "spjax.contexts.truncated:TruncatedGaussian",
        "beta": "spjax.contexts.beta:Beta",
        "mixture": "spjax.contexts.mixture:Mixture",
        "discrete-gaussian": "spjax.contexts.product:DiscreteGaussian",
    },
    "features": {
        "polynomial": "spjax.agents.episodic.features:Polynomial",
        "radial-basis": "spjax.agents.episodic.features:RadialBasis",
    },
    "picture": {
        "learning-curve": f"{_PICTURES}:LearningCurve",
        "success-rate": f"{_PICTURES}:SuccessRate",
        "kl-to-target": f"{_PICTURES}:KLToTarget",
        "alpha": f"{_PICTURES}:Alpha",
        "sweep": f"{_PICTURES}:Sweep",
        "contexts": f"{_PICTURES}:Contexts",
        "trajectories": f"{_PICTURES}:Trajectories",
    },
}
KINDS = tuple(_BUILT_IN)
GROUP = "spjax"  # of entry points

Class = TypeVar("Class", bound=type[Part])


@dataclasses.dataclass(frozen=True)
class Entry:
    """A class under a name, and the settings that this name fixes."""

    kind: str
    name: str
    cls: type[Part]
    fixed: Mapping[str, Value]


@dataclasses.dataclass(frozen=True)
class Use:
    """A file or module of the user's that was loaded, as a run folder keeps it."""

    module: str
    file: str
    sha256: str


_FOUND: dict[tuple[str, str], Entry] = {}
_ENTRY_POINTS_LOADED = False


def part(kind: str, name: str, **fixed: Value) -> Callable[[Class], Class]:
    """Registers the class that it decorates.

    Args:
        kind: "task", "agent", "teacher", "schedule", "distribution", "features" or "picture".
        name: to choose it by.
        fixed: settings that this name stands for; a class may have several names.

    Raises:
        ValueError: no such kind, the name is taken by another class, or the class does not fulfil the contract of its kind.
    """
    if kind not in _BUILT_IN:
        raise ValueError(f"unknown kind {kind!r}; {nearest(kind, KINDS)}")

    def add(cls: Class) -> Class:
        where = f"{cls.__module__}:{cls.__qualname__}"
        taken = _BUILT_IN[kind].get(name, where)
        if (kind, name) in _FOUND:
            other = _FOUND[kind, name].cls
            taken = f"{other.__module__}:{other.__qualname__}"
        if taken != where:
            raise ValueError(
                f"there is a {kind} {name!r} already: {taken.replace(':', '.')}"
            )
        if issubclass(cls, Part):
            if cls.kind != kind:
                raise ValueError(
                    f"{cls.__name__} is {a_kind(cls.kind)}, it cannot be the {kind} {name!r}"
                )
            if not any(entry.cls is cls for entry in _FOUND.values()):
                cls.__doc__ = (cls.__doc__ or "") + help_text(cls)
        _FOUND[kind, name] = Entry(kind, name, cls, fixed)
        return cls

    return add


def names(kind: str) -> tuple[str, ...]:
    """Returns the names of all parts of a kind: built-in ones first, then those that were loaded."""
    _load_entry_points()
    own = tuple(
        name for known, name in _FOUND if known == kind and name not in _BUILT_IN[kind]
    )
    return (*_BUILT_IN[kind], *own)


def find(kind: str, name: str) -> Entry:
    """Returns the class of a name.

    Raises:
        ValueError: no such name; the message has the nearest one.
    """
    _load_entry_points()
    if (kind, name) not in _FOUND:
        where = _BUILT_IN[kind].get(name)
        if where is None:
            raise ValueError(
                f"unknown {kind} {name!r}; {nearest(name, names(kind), 0.5)}"
            )
        importlib.import_module(where.partition(":")[0])
    return _FOUND[kind, name]


def make(kind: str, name: str, **settings: Value) -> Any:
    """Returns the part of a name with these settings, the others at their defaults; raises as `find`."""
    entry = find(kind, name)
    return entry.cls.made(**entry.fixed, **settings)


def entry_of(part: Part) -> Entry:
    """Returns where a part stands in the catalogue.

    Raises:
        ValueError: its class is not there; a subclass of a known part is not that part.
    """
    own = [entry for entry in _FOUND.values() if entry.cls is type(part)]
    for entry in own:
        values = part.settings()
        if all(values[name] == value for name, value in entry.fixed.items()):
            return entry
    cls = type(part)
    if own:
        raise ValueError(
            f"no {part.kind} of the catalogue is {cls.__name__} with these settings: {part!r}"
        )
    kind = getattr(cls, "kind", "part")
    raise ValueError(
        f"{cls.__module__}.{cls.__qualname__} is not in the catalogue, so a run with it could not be read again; "
        f'decorate the class with @part("{kind}", "NAME") in a file of its own'
    )


def name_of(part: Part | type[Part]) -> str:
    """Returns the name of a part, or the first one of a class; raises as `entry_of`."""
    if isinstance(part, type):
        return next(entry.name for entry in _FOUND.values() if entry.cls is part)
    return entry_of(part).name


def own_settings(part: Part) -> dict[str, Value]:
    """Returns the settings of a part that its name leaves open."""
    fixed = entry_of(part).fixed
    return {name: value for name, value in part.settings().items() if name not in fixed}


def elsewhere(name: str, parts: Iterable[Part | type[Part]]) -> str | None:
    """Returns which other part has a setting that none of these has, None where none does; ``name`` may be dotted."""
    setting = meant(name).replace("-", "_")
    parts = list(parts)
    if any(setting in part.declared() for part in parts):
        return None
    for part in parts:
        owners = [
            other
            for other in names(part.kind)
            if setting in find(part.kind, other).cls.declared()
        ]
        if owners:
            own = name_of(part)
            return f"{setting} is of the {part.kind} {' or '.join(owners[:3])}, this one is {own}"
    return None


def spell(value: object) -> object:
    """Returns a value of a setting as JSON holds it; a part as its kind, its name and its settings, nested ones too."""
    if isinstance(value, Part):
        settings = {name: spell(inner) for name, inner in own_settings(value).items()}
        return {value.kind: name_of(value), **settings}
    if isinstance(value, tuple | list):
        return [spell(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def build(spelled: object) -> Value:
    """Returns what `spell` spelled.

    Raises:
        ValueError: an unknown kind or name, a setting that the part does not have, or a value that is out of its range.
    """
    if isinstance(spelled, Mapping):
        (kind, name), *settings = spelled.items()
        if kind not in _BUILT_IN:
            raise ValueError(f"unknown kind {kind!r}; {nearest(kind, KINDS)}")
        entry = find(kind, name)
        values = {setting: build(value) for setting, value in settings}
        for setting in values:
            if setting not in entry.cls.declared():
                known = entry.cls.declared()
                raise ValueError(
                    f"the {kind} {name!r} has no setting {setting!r}; {nearest(setting, known)}"
                )
        made = make(kind, name, **values)
        check(kind, made)
        return made
    if isinstance(spelled, list):
        return tuple(build(inner) for inner in spelled)
    if isinstance(spelled, str) and spelled in ("inf", "-inf"):
        return float(spelled)
    return spelled


def use(where: str) -> None:
    """Loads a user's file (``mine.py``) or module (``mine.teachers``), whose parts register themselves.

    Raises:
        ValueError: it is not there, it cannot be imported, or a name that it registers is taken.
    """
    if where.endswith(".py"):
        _load_file(Path(where), Path(where).stem)
        return
    try:
        importlib.import_module(where)
    except ImportError as error:
        raise ValueError(f"cannot use {where!r}: {error}") from error


def uses(parts: Iterable[Part]) -> list[Use]:
    """Returns the user's files that these parts come from, nested parts too.

    Raises:
        ValueError: a part is not in the catalogue, or its class was typed in and stands in no file.
    """
    found: dict[str, Use] = {}
    for one in itertools.chain.from_iterable(map(with_nested, parts)):
        entry = entry_of(one)
        if _is_built_in(entry):
            continue
        module = sys.modules[entry.cls.__module__]
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).is_file():
            raise ValueError(
                f"the {entry.kind} {entry.name!r} stands in no file, so a run with it could not be read again; "
                "put its class into a file and import that"
            )
        path = Path(file).resolve()
        found[str(path)] = Use(
            _module_name(entry.cls.__module__, path), str(path), _digest(path)
        )
    return list(found.values())


def load(needed: Iterable[Use], accept_changes: bool = False) -> None:
    """Loads what a run folder was trained with.

    Raises:
        ValueError: a file is missing or another one than it was, unless that is accepted.
    """
    for one in needed:
        path = Path(one.file)
        if accept_changes and not path.is_file():
            continue  # its parts come from elsewhere now, or are found missing when they are built
        if not path.is_file():
            raise ValueError(
                f"the run needs {path}, which is missing; put it back, or name its new place with --use"
            )
        if _digest(path) != one.sha256 and not accept_changes:
            raise ValueError(
                f"{path} is not the file that the run was trained with; put that one back, "
                "or accept the file as it is with --use"
            )
        if _is_loaded(path):
            continue
        if _is_importable(one.module, path):
            use(one.module)
        else:
            _load_file(path, one.module)


def _is_built_in(entry: Entry) -> bool:
    return _BUILT_IN[entry.kind].get(entry.name) is not None


def _is_loaded(path: Path) -> bool:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return any(file and Path(file).resolve() == path for file in files)


def _is_importable(module: str, path: Path) -> bool:
    """Says whether an import of this module loads this file; one that stands in a package needs that."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return (
        spec is not None
        and spec.origin is not None
        and Path(spec.origin).resolve() == path
    )


def _module_name(name: str, path: Path) -> str:
    return path.stem if name == "__main__" else name


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _load_file(path: Path, name: str) -> None:
    if not path.is_file():
        raise ValueError(f"there is no file {path} to use")
    path = path.resolve()
    if _is_loaded(path):
        return
    name = name if name not in sys.modules else f"{name}_{_digest(path)[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    before = set(_FOUND)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        for key in set(_FOUND) - before:
            if _FOUND[key].cls.__module__ == name:
                del _FOUND[key]
        raise ValueError(
            f"cannot use {path}: {type(error).__name__}: {error}"
        ) from error


def _load_entry_points() -> None:
    """Loads the modules that installed packages name in the entry-point group, once."""
    global _ENTRY_POINTS_LOADED
    if _ENTRY_POINTS_LOADED:
        return
    _ENTRY_POINTS_LOADED = True
    for point in metadata.entry_points(group=GROUP):
        point.load()
