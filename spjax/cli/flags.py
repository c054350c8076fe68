"""Flags made from settings: tyro splits the command line and writes the help, the declarations of the settings are the help.

tyro gets records that mirror the settings instead of the parts themselves. So every value is read by a function that knows
its flag and can say in one sentence what is wrong, and the parts are built outside tyro, where what they object to is the
caller's to report.
"""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from spjax import catalogue, settings
from spjax.cli.errors import UsageError
from spjax.settings import Declared, Part, Value

# type -> one value in words, several in words, in the usage line
_WORDS: Mapping[object, tuple[str, str, str]] = {
    float: ("a number", "numbers", "FLOAT"),
    int: ("a whole number", "whole numbers", "INT"),
    str: ("a value", "values", "TEXT"),
    Path: ("a folder", "folders", "FOLDER"),
}

_UNIONS = (types.UnionType, typing.Union)  # X | None; the latter where X is a Literal
MISSING = dataclasses.MISSING

Flags = TypeVar("Flags", bound=Part)


@dataclasses.dataclass(frozen=True)
class Group:
    """The flags of one part or command. A setting of a command without a default is a positional argument."""

    prefix: str  # of the flags: "agent" makes --agent.learning-rate; "" for none
    source: (
        Part | type[Part]
    )  # an instance, whose values are the defaults, or the class
    title: str = ""
    hidden: frozenset[str] = frozenset()  # settings that have no flag
    choices: Mapping[str, Sequence[str]] = dataclasses.field(
        default_factory=dict
    )  # words of settings that are names

    def declared(self) -> dict[str, Declared]:
        """Returns the settings that have a flag."""
        return {
            name: one
            for name, one in self.source.declared().items()
            if name not in self.hidden
        }

    def fields(self) -> list[tuple[str, object, Value]]:
        """Returns name, type and default (or MISSING) of each setting that has a flag; parts go by their names."""
        values = {} if isinstance(self.source, type) else self.source.settings()
        found = []
        for name, declared in self.declared().items():
            default = values.get(name, declared.default)
            hint = declared.hint
            if name in self.choices:
                hint = _literal(self.choices[name])
            elif declared.kind is not None:
                hint = _literal(catalogue.names(declared.kind))
                if isinstance(default, Part | type):
                    default = catalogue.name_of(default)
            found.append((name, hint, default))
        return found

    def flag(self, name: str) -> str:
        """Returns the flag of a setting."""
        return "--" + (f"{self.prefix}.{name}" if self.prefix else name).replace(
            "_", "-"
        )


def parse(
    command: str, description: str, groups: Sequence[Group], args: Sequence[str]
) -> dict[str, dict[str, Value]]:
    """Returns the values of the settings of each group, by prefix; `--help` prints and exits.

    Raises:
        UsageError: an unknown flag, a list given in two parts, or a value of the wrong type.
    """
    _check_lists(groups, args)
    _check_needed(groups, args)
    names = {group.prefix: f"group{number}" for number, group in enumerate(groups)}
    records = [
        (
            names[group.prefix],
            Annotated[_record(command, group), tyro.conf.arg(name=group.prefix)],
        )
        for group in groups
    ]
    parsed: object
    parsed, unknown = tyro.cli(
        dataclasses.make_dataclass("Flags", records),
        prog=f"spjax {command}",
        description=description,
        args=list(args),
        return_unknown_args=True,
    )
    if unknown:
        raise UsageError(_unknown(command, groups, unknown[0]))
    return {prefix: vars(getattr(parsed, name)) for prefix, name in names.items()}


def parse_command(
    command: str, description: str, flags: type[Flags], args: Sequence[str]
) -> Flags:
    """Returns the flags of a command that has no others; prints, exits and raises as `parse`."""
    return flags.made(**parse(command, description, [Group("", flags)], args)[""])


def value_of(args: Sequence[str], flag: str) -> str | None:
    """Returns the value of a flag in raw arguments, the last one where it is repeated, None where it is missing."""
    found = None
    for token, following in zip(args, [*args[1:], ""], strict=False):
        name, equals, value = token.partition("=")
        if name.replace("_", "-") == flag:
            found = value if equals or following.startswith("--") else following
    return found


def read(what: str, hint: object, tokens: Sequence[str]) -> Value:
    """Returns the value of the type `hint` that the tokens spell.

    Raises:
        UsageError: they spell none; the sentence begins with `what`.
    """
    try:
        return _convert(hint, tokens)
    except ValueError:
        got = repr(" ".join(tokens)) if tokens else "nothing"
        raise UsageError(f"{what} needs {_expected(hint)}, got {got}") from None


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """Returns the tail of an error message: the nearest known name, or something else."""
    near = settings.near_name(name, known, cutoff=0.7)
    return f"did you mean {near}?" if near else otherwise


def _literal(words: Sequence[str]) -> object:
    return Literal.__getitem__(tuple(words))


def _check_lists(groups: Sequence[Group], args: Sequence[str]) -> None:
    """Refuses a list that is given in two parts, of which tyro would drop the first."""
    given = [token.partition("=")[0].replace("_", "-") for token in args]
    for group in groups:
        for name, hint, _ in group.fields():
            if (
                _element(hint)
                and not _is_appended(hint)
                and given.count(group.flag(name)) > 1
            ):
                raise UsageError(
                    f"{group.flag(name)} is given twice; name all its values after one of them"
                )


def _check_needed(groups: Sequence[Group], args: Sequence[str]) -> None:
    """Refuses to go on without a setting of a part that has no default."""
    given = {token.partition("=")[0].replace("_", "-") for token in args}
    if given & {"-h", "--help"}:
        return
    for group in groups:
        for name, hint, default in group.fields():
            if default is MISSING and group.prefix and group.flag(name) not in given:
                raise UsageError(
                    f"{group.flag(name)} needs {_expected(hint)}, got nothing"
                )


def _record(command: str, group: Group) -> type:
    """Returns a dataclass for tyro with the fields of the group."""
    about = group.declared()
    fields: list[tuple[str, object] | tuple[str, object, Value]] = []
    for name, hint, default in group.fields():
        positional = default is MISSING and not group.prefix
        shown = (
            "" if positional or default in (None, (), MISSING) else None
        )  # None: tyro shows the default
        described = about[name].setting.describe()
        annotations: list[object] = [
            tyro.conf.arg(help=described, help_behavior_hint=shown)
        ]
        if positional:
            annotations.append(tyro.conf.Positional)
        if _is_appended(hint):
            words = _spec(group.flag(name), tuple[str, ...])
            record_type: object = tuple.__class_getitem__(
                (Annotated[tuple[str, ...], words], ...)
            )
            annotations.append(tyro.conf.UseAppendAction)
        else:
            record_type = hint
            if hint is not bool:  # which has no value: --name or --no-name
                annotations.append(
                    _spec(command if positional else group.flag(name), hint)
                )
        annotated: object = Annotated[(record_type, *annotations)]
        fields.append(
            (name, annotated) if default is MISSING else (name, annotated, default)
        )
    record = dataclasses.make_dataclass("Options", fields, kw_only=True)
    record.__doc__ = group.title
    return record


def _spec(what: str, hint: object) -> PrimitiveConstructorSpec[Value]:
    """Returns how tyro reads one flag: all its tokens, by `read`."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=_metavar(hint),
        instance_from_str=lambda tokens: read(what, hint, tokens),
        is_instance=lambda value: True,
        str_from_instance=lambda value: spelled(value).split(" "),
    )


def _convert(hint: object, tokens: Sequence[str]) -> Value:
    if _is_union(hint):
        if list(tokens) == ["None"]:
            return None
        if not tokens and bool in typing.get_args(hint):  # --each says it all
            return True
        return _convert(_fitting(hint, tokens), tokens)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if not tokens:
            raise ValueError
        rows = typing.get_origin(arguments[0]) is tuple  # of a matrix: 1:0 0:1
        return tuple(
            _convert(arguments[0], token.split(":") if rows else [token])
            for token in tokens
        )
    (token,) = tokens
    if origin is Literal:
        (word,) = [word for word in arguments if str(word) == token]
        return word
    if hint is bool:
        return (
            {"True": True, "False": False}[token]
            if token in ("True", "False")
            else _fail()
        )
    assert isinstance(hint, type)
    return hint(token)


def _fail() -> bool:
    raise ValueError


def _fitting(hint: object, tokens: Sequence[str]) -> object:
    """Returns the type of a union that so many tokens spell: a number, or several."""
    choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
    several = [choice for choice in choices if typing.get_origin(choice) is tuple]
    single = [choice for choice in choices if typing.get_origin(choice) is not tuple]
    return several[0] if several and (len(tokens) != 1 or not single) else single[0]


def _expected(hint: object) -> str:
    """Returns in words what values a type has."""
    if _is_union(hint):
        return " or ".join(
            _expected(choice)
            for choice in typing.get_args(hint)
            if choice is not type(None)
        )
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple:
        return (
            "rows of numbers, such as 1:0 0:1"
            if typing.get_origin(arguments[0])
            else _WORDS[arguments[0]][1]
        )
    return "True or False" if hint is bool else _WORDS[hint][0]


def _element(hint: object) -> object:
    """Returns the type of a list's values, None where it is no list."""
    choices = typing.get_args(hint) if _is_union(hint) else (hint,)
    for choice in choices:
        if typing.get_origin(choice) is tuple:
            return typing.get_args(choice)[0]
    return None


def _is_appended(hint: object) -> bool:
    """Says whether a flag may be repeated, each with several words."""
    return hint == tuple[tuple[str, ...], ...]


def _is_union(hint: object) -> bool:
    return typing.get_origin(hint) in _UNIONS


def _metavar(hint: object) -> str:
    if _is_union(hint):
        words = "|".join(
            _metavar(choice)
            for choice in typing.get_args(hint)
            if choice is not type(None)
        )
        return f"[{words}]" if bool in typing.get_args(hint) else words
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "{" + ",".join(map(str, arguments)) + "}"
    if origin is tuple:
        return (
            "ROW ..."
            if typing.get_origin(arguments[0])
            else f"{_metavar(arguments[0])} ..."
        )
    return "BOOL" if hint is bool else _WORDS[hint][2]


def spelled(value: object) -> str:
    """Returns a value as it would be typed."""
    if isinstance(value, tuple):
        return " ".join(
            ":".join(map(spelled, row)) if isinstance(row, tuple) else spelled(row)
            for row in value
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unknown(command: str, groups: Sequence[Group], token: str) -> str:
    if not token.startswith("-"):
        return f"unexpected argument {token!r}; see spjax {command} --help"
    name = token.partition("=")[0].replace("_", "-")
    known = [
        group.flag(field).removeprefix("--")
        for group in groups
        for field in group.declared()
    ]
    near = settings.near_name(name.removeprefix("--"), known, cutoff=0.7)
    parts = [group.source for group in groups if group.prefix not in ("", "task")]
    other = catalogue.elsewhere(name.removeprefix("--"), reversed(parts))
    if other and not (near and settings.meant(near) == settings.meant(name)):
        return f"unknown flag {name}; {other}"
    return f"unknown flag {name}; " + (
        f"did you mean --{near}?" if near else f"see spjax {command} --help"
    )
