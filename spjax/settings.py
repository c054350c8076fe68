"""Settings: one declaration gives the check, the flag, the help text, the sweep and the JSON.

    @struct.dataclass
    class Mine(Teacher):
        rate: float = setting(0.1, least=0, most=1, help="share of random tasks")

What has settings is a `Part`. Traced settings are leaves of its pytree, so a sweep over them never recompiles; static ones
shape the program. Nothing here needs JAX.
"""

import contextlib
import dataclasses
import difflib
import functools
import math
import numbers
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, TypeVar

# of a setting: a number, a word, a tuple of them, None, or another part; which of them, the setting's own type says
Value = Any

PartOf = TypeVar("PartOf", bound="Part")

_KEY = "setting"  # in the metadata of a field
_UNIONS = (types.UnionType, typing.Union)
_LARGEST = 2**31  # whole numbers are 32 bits wide inside the program


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a field says of itself."""

    static: bool = False  # shapes the compiled program, so a sweep cannot vary it
    least: float | None = None
    most: float | None = None
    above: float | None = None  # like `least`, but not the bound itself
    infinite: bool = False  # whether infinity is allowed; it switches something off
    unit: str = ""  # "1" and "" for a dimensionless number
    help: str = ""

    def describe(self) -> str:
        """Returns the help text with unit and bounds."""
        notes = [self.unit] if self.unit not in ("", "1") else []
        if self.least is not None and self.most is not None:
            notes.append(f"{self.least:g} to {self.most:g}")
        elif self.least is not None:
            notes.append(f"at least {self.least:g}")
        elif self.above is not None:
            notes.append(f"above {self.above:g}")
        return self.help + (f" [{', '.join(notes)}]" if notes else "")


@dataclasses.dataclass(frozen=True)
class Declared:
    """A setting of a class: its name, its type, and what it says of itself."""

    name: str
    hint: object
    default: object  # `dataclasses.MISSING` where there is none
    setting: Setting

    @property
    def contract(self) -> "type[Part] | None":
        """The class of parts that the setting holds, None for numbers and words."""
        for choice in _choices(self.hint):
            if isinstance(choice, type) and issubclass(choice, Part):
                return choice
        return None

    @property
    def kind(self) -> str | None:
        """The kind of part that the setting holds, None for numbers and words."""
        return None if self.contract is None else self.contract.kind

    @property
    def optional(self) -> bool:
        """Whether None is a value."""
        return type(None) in _choices(self.hint)


def setting(
    default: object = dataclasses.MISSING,
    *,
    static: bool = False,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    infinite: bool = False,
    unit: str = "",
    help: str = "",
) -> Any:
    """Returns the field of a setting.

    Args:
        default: its value where none is given.
        static: whether it shapes the compiled program; a sweep varies the other, traced ones.
        least: smallest value.
        most: largest value.
        above: the value must be larger than this.
        infinite: whether infinity is allowed.
        unit: for example "s" or "nats".
        help: one line.
    """
    about = Setting(static, least, most, above, infinite, unit, help)
    return dataclasses.field(
        default=default, metadata={"pytree_node": not static, _KEY: about}
    )


class Part:
    """What has settings and can be chosen by name: a dataclass whose fields are made by `setting`."""

    kind: ClassVar[
        str
    ]  # of the contract that it fulfils: "task", "agent", "teacher", ...

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Returns the settings of this class by name."""
        return dict(_declared(cls))  # type: ignore[arg-type]

    def settings(self) -> dict[str, Value]:
        """Returns the values of the settings by name."""
        return {name: getattr(self, name) for name in self.declared()}

    def changed(self, **values: Value) -> Self:
        """Returns the part with other values of these settings."""
        return dataclasses.replace(self, **values)  # type: ignore[type-var]

    @classmethod
    def made(cls, **values: Value) -> Self:
        """Returns the part with these settings, the others at their defaults."""
        return cls(**values)


@functools.cache  # a sweep asks for every lane, and resolving the hints takes time
def _declared(cls: type[Part]) -> Mapping[str, Declared]:
    hints = typing.get_type_hints(cls)
    return {
        field.name: Declared(
            field.name, hints[field.name], field.default, field.metadata[_KEY]
        )
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if _KEY in field.metadata
    }


def traced(part: Part) -> dict[str, Declared]:
    """Returns the settings that a sweep may vary, by dotted name; those of nested parts too."""
    found: dict[str, Declared] = {}
    for name, declared in part.declared().items():
        value = part.settings()[name]
        if isinstance(value, Part):
            found |= {f"{name}.{inner}": one for inner, one in traced(value).items()}
        elif declared.kind is None and not declared.setting.static:
            found[name] = declared
    return found


def every(part: Part) -> dict[str, Declared]:
    """Returns all settings by dotted name, those of nested parts too."""
    found: dict[str, Declared] = {}
    for name, declared in part.declared().items():
        found[name] = declared
        value = part.settings()[name]
        if isinstance(value, Part):
            found |= {f"{name}.{inner}": one for inner, one in every(value).items()}
    return found


def with_nested(part: Part) -> Iterator[Part]:
    """Yields the part and those inside it."""
    yield part
    for value in part.settings().values():
        if isinstance(value, Part):
            yield from with_nested(value)


def get(part: Part, path: str) -> Value:
    """Returns the value of a setting by its dotted name."""
    name, _, rest = path.partition(".")
    value = part.settings()[name]
    return get(value, rest) if rest else value


def put(part: PartOf, path: str, value: Value) -> PartOf:
    """Returns the part with another value of the setting of this dotted name."""
    name, _, rest = path.partition(".")
    return part.changed(
        **{name: put(part.settings()[name], rest, value) if rest else value}
    )


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Puts the dotted name of a setting before the sentence of a part that does not know where it stands."""
    try:
        yield
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None


def put_all(part: PartOf, values: Mapping[str, Value]) -> PartOf:
    """Returns the part with other values of the settings of these dotted names."""
    for path, value in values.items():
        part = put(part, path, value)
    return part


def plain(value: Value) -> Value:
    """Returns a value in the types of Python: numbers of NumPy become Python's, arrays and lists become tuples."""
    if isinstance(value, Part):
        changes = {name: plain(old) for name, old in value.settings().items()}
        same = all(changes[name] is old for name, old in value.settings().items())
        return value if same else value.changed(**changes)
    if isinstance(value, list | tuple):
        return (
            tuple(map(plain, value))
            if isinstance(value, list) or any(plain(v) is not v for v in value)
            else value
        )
    if hasattr(value, "tolist"):  # of NumPy and JAX
        return plain(value.tolist())
    return value


def check(prefix: str, part: Part) -> None:
    """Checks kind and range of every setting, nested parts too.

    Raises:
        ValueError: one sentence that names the setting, what it must be, and the value.
    """
    for name, declared in part.declared().items():
        check_value(f"{prefix}.{name}", declared, part.settings()[name])


def check_value(name: str, declared: Declared, value: object) -> None:
    """Checks one value of a setting; raises as `check`."""
    if value is None and declared.optional:
        return
    words = [word for choice in _choices(declared.hint) for word in _words(choice)]
    if words:
        if value not in words:
            raise ValueError(f"{name} must be {_either(words)}, got {value!r}")
    elif declared.contract is not None:
        kind = declared.contract.kind
        if not isinstance(value, Part) or value.kind != kind:
            raise ValueError(f"{name} must be {a_kind(kind)}, got {named(value)}")
        if not isinstance(value, declared.contract):
            wanted = declared.contract.__name__
            raise ValueError(
                f"{name} must be {a_kind(kind)} of class {wanted}, got {named(value)}"
            )
        check(name, value)
    elif bool in _choices(declared.hint):
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")
    elif str not in _choices(declared.hint):
        _check_numbers(name, declared, value)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Returns the tail of an error message: names that have this one as a word, or the nearest known one, or all of them."""
    known = list(known)
    longer = [candidate for candidate in known if name in candidate.split("-")]
    if longer:
        return f"did you mean {_either([repr(candidate) for candidate in longer])}?"
    near = near_name(name, known, cutoff)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"


def near_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Returns the nearest of the known names, None where none is near. The paper's symbols lead to their settings."""
    known = list(known)
    wanted = meant(name)
    same = [candidate for candidate in known if wanted and _last(candidate) == wanted]
    if same:
        return same[0]
    if _last(name).lower() in SYMBOLS:  # of a setting that is not here
        return None

    # a shared prefix would make every name near
    prefix = name.partition(".")[0] + "."
    inside = [
        candidate
        for candidate in known
        if name.startswith(prefix) and candidate.startswith(prefix)
    ]
    compared = {
        candidate.removeprefix(prefix if inside else ""): candidate
        for candidate in inside or known
    }
    near = difflib.get_close_matches(
        name.removeprefix(prefix if inside else ""), compared, n=1, cutoff=cutoff
    )
    return compared[near[0]] if near else None


def meant(name: str) -> str:
    """Returns the setting that the last part of a dotted name, a flag's or a symbol of the paper, stands for."""
    last = _last(name)
    return SYMBOLS.get(last.lower(), last)


SYMBOLS: Mapping[str, str] = {  # of the paper -> setting
    "k_alpha": "offset",
    "epsilon": "max_kl",
    "eps": "max_kl",
    "v_lb": "performance_bound",
    "sigma_lb": "std_floor",
    "d_kl_lb": "floor_kl",
    "gamma": "discount",
    "lambda": "gae_lambda",
    "kl_proportion": "zeta",
    "k_offset": "warmup",
}


def a_kind(kind: str) -> str:
    """Returns the kind with its article: "an agent", "a teacher"."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def named(value: object) -> str:
    """Returns a value as messages show it: a part by its class, without its settings."""
    return (
        f"the {value.kind} {type(value).__name__}"
        if isinstance(value, Part)
        else repr(value)
    )


def help_text(cls: type[Part]) -> str:
    """Returns a list of the settings for a docstring."""
    lines = []
    for name, declared in cls.declared().items():
        shown = (
            ""
            if declared.default is dataclasses.MISSING
            else f" (default {_shown(declared.default)})"
        )
        how = "static" if declared.setting.static else "traced"
        lines.append(
            f"    {name}: {declared.setting.describe()}{shown}, {how}".rstrip()
        )
    return "\n\nSettings:\n" + "\n".join(lines) if lines else ""


def _last(name: str) -> str:
    """Returns the last part of a dotted name, whether it is written as a flag or as a setting."""
    return name.rpartition(".")[2].replace("-", "_")


def _shown(value: object) -> str:
    return type(value).__name__ if isinstance(value, Part) else f"{value}"


def _choices(hint: object) -> tuple[object, ...]:
    """Returns the types that a union allows; the type itself where it is no union."""
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _words(hint: object) -> tuple[str | int, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) is Literal else ()


def _either(words: list[str | int]) -> str:
    shown = [str(word) for word in words]
    return f"{', '.join(shown[:-1])} or {shown[-1]}" if len(shown) > 1 else shown[0]


def _check_numbers(name: str, declared: Declared, value: object) -> None:
    several = any(
        typing.get_origin(choice) is tuple for choice in _choices(declared.hint)
    )
    single = any(
        typing.get_origin(choice) is not tuple and choice is not type(None)
        for choice in _choices(declared.hint)
    )
    if isinstance(value, tuple):
        if not several:
            raise ValueError(f"{name} needs a number, got {value!r}")
        for number in value:
            _check_tuple_item(name, declared, number)
    elif several and not single:
        raise ValueError(f"{name} needs several numbers, got {value!r}")
    else:
        whole = int in _choices(declared.hint) and not declared.setting.infinite
        _check_number(name, declared.setting, value, whole)


def _check_tuple_item(name: str, declared: Declared, item: object) -> None:
    if isinstance(item, tuple):
        for number in item:
            _check_tuple_item(name, declared, number)
        return
    element = next(
        typing.get_args(c)[0]
        for c in _choices(declared.hint)
        if typing.get_origin(c) is tuple
    )
    _check_number(name, declared.setting, item, element is int)


def _check_number(name: str, about: Setting, value: Value, whole: bool) -> None:
    _check_is_number(name, value, whole)
    _check_range(name, about, value)
    if math.isinf(value) and not about.infinite:
        positive = "positive and " if about.above == 0 else ""
        raise ValueError(f"{name} must be {positive}finite, got {value}")


def _check_is_number(name: str, value: object, whole: bool) -> None:
    integral = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if whole and not integral:
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} needs a number, got {value!r}")
    if math.isnan(value):
        raise ValueError(f"{name} must not be NaN")
    if integral and not -_LARGEST < float(value) < _LARGEST:
        raise ValueError(
            f"{name} must be less than 2^31 if it is a whole number, got {value}"
        )


def _check_range(name: str, about: Setting, value: Value) -> None:
    if about.least is not None and about.most is not None:
        if not about.least <= value <= about.most:
            raise ValueError(
                f"{name} must lie in [{about.least:g}, {about.most:g}], got {value}"
            )
    elif about.least is not None and value < about.least:
        raise ValueError(f"{name} must be at least {about.least:g}, got {value}")
    elif about.most is not None and value > about.most:
        raise ValueError(f"{name} must be at most {about.most:g}, got {value}")
    if about.above is not None and not value > about.above:
        bound = "positive" if about.above == 0 else f"more than {about.above:g}"
        raise ValueError(
            f"{name} must be {bound}{'' if about.infinite else ' and finite'}, got {value}"
        )
