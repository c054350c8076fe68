"""Flags made from dataclasses: tyro splits the command line and writes the help, the comments of the fields are the help.

tyro gets records that mirror the fields of the dataclasses instead of the dataclasses themselves. So every value is read by a
function that knows its flag and can say in one sentence what is wrong, and the settings are built outside tyro, where what
they object to is the caller's to report.
"""

import dataclasses
import difflib
import inspect
import re
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from spjax.cli.errors import UsageError

# type -> one value in words, several in words, in the usage line
_WORDS = {
    float: ("a number", "numbers", "FLOAT"),
    int: ("a whole number", "whole numbers", "INT"),
    str: ("a value", "values", "TEXT"),
    Path: ("a folder", "folders", "FOLDER"),
}

_UNIONS = (types.UnionType, typing.Union)  # X | None; the latter where X is a Literal


@dataclasses.dataclass(frozen=True)
class Group:
    """The flags of one dataclass. A field without a default is a positional argument."""

    prefix: str  # of the flags: "agent" makes --agent.learning-rate; "" for none
    source: Any  # an instance, which has the defaults, or the dataclass itself
    title: str = ""
    hidden: frozenset[str] = frozenset()  # fields that have no flag

    def fields(self) -> list[tuple[str, Any, Any]]:
        """Returns name, type and default (or MISSING) of each field that has a flag."""
        is_class = isinstance(self.source, type)
        hints = typing.get_type_hints(self.source if is_class else type(self.source))
        return [
            (field.name, hints[field.name], field.default if is_class else getattr(self.source, field.name))
            for field in dataclasses.fields(self.source)
            if field.name not in self.hidden
        ]

    def flag(self, name: str) -> str:
        """Returns the flag of a field."""
        return "--" + (f"{self.prefix}.{name}" if self.prefix else name).replace("_", "-")


def parse(command: str, description: str, groups: Sequence[Group], args: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the values of the fields of each group, by prefix; `--help` prints and exits.

    Raises:
        UsageError: an unknown flag, a list given in two parts, or a value of the wrong type.
    """
    _check_lists(groups, args)
    names = {group.prefix: group.prefix or "options" for group in groups}
    records = [
        (names[group.prefix], Annotated[_record(command, group), tyro.conf.arg(name=group.prefix)]) for group in groups
    ]
    parsed: Any
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


def value_of(args: Sequence[str], flag: str) -> str | None:
    """Returns the value of a flag in raw arguments, the last one where it is repeated, None where it is missing."""
    found = None
    for token, following in zip(args, [*args[1:], ""], strict=False):
        name, equals, value = token.partition("=")
        if name.replace("_", "-") == flag:
            found = value if equals or following.startswith("--") else following
    return found


def read(what: str, hint: Any, tokens: Sequence[str]) -> Any:
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
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else otherwise


def _check_lists(groups: Sequence[Group], args: Sequence[str]) -> None:
    """Refuses a list that is given in two parts, of which tyro would drop the first."""
    given = [token.partition("=")[0].replace("_", "-") for token in args]
    for group in groups:
        for name, hint, _ in group.fields():
            element = _element(hint)
            if element and not _element(element) and given.count(group.flag(name)) > 1:
                raise UsageError(f"{group.flag(name)} is given twice; name all its values after one of them")


def _record(command: str, group: Group) -> Any:
    """Returns a dataclass for tyro with the fields of the group."""
    comments = _comments(group.source if isinstance(group.source, type) else type(group.source))
    fields: list[Any] = []
    for name, hint, default in group.fields():
        positional = default is dataclasses.MISSING
        shown = "" if positional or default in (None, ()) else None  # None: tyro shows the default
        annotations: list[Any] = [tyro.conf.arg(help=comments.get(name), help_behavior_hint=shown)]
        if positional:
            annotations.append(tyro.conf.Positional)
        inner = _element(hint)
        if inner and _element(inner):
            hint = tuple[Annotated[inner, _spec(group.flag(name), inner)], ...]
            annotations.append(tyro.conf.UseAppendAction)
        elif hint is not bool:  # which has no value: --name or --no-name
            annotations.append(_spec(command if positional else group.flag(name), hint))
        fields.append((name, Annotated[(hint, *annotations)], *([] if positional else [default])))
    record = dataclasses.make_dataclass("Options", fields)
    record.__doc__ = group.title
    return record


def _spec(what: str, hint: Any) -> PrimitiveConstructorSpec:
    """Returns how tyro reads one flag: all its tokens, by `read`."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=_metavar(hint),
        instance_from_str=lambda tokens: read(what, hint, tokens),
        is_instance=lambda value: True,
        str_from_instance=lambda value: _spelled(value).split(" "),
    )


def _convert(hint: Any, tokens: Sequence[str]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return None if list(tokens) == ["None"] else _convert(arguments[0], tokens)
    if origin is tuple:
        if not tokens:
            raise ValueError
        return tuple(_convert(arguments[0], [token]) for token in tokens)
    (token,) = tokens
    if origin is Literal and token not in arguments:
        raise ValueError
    return token if origin is Literal else hint(token)


def _expected(hint: Any) -> str:
    """Returns in words what values a type has."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple:
        return _WORDS[arguments[0]][1]
    return _expected(arguments[0]) if origin in _UNIONS else _WORDS[hint][0]


def _element(hint: Any) -> Any:
    """Returns the type of a list's values, None where it is no list."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return _element(arguments[0])
    return arguments[0] if origin is tuple else None


def _metavar(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "{" + ",".join(arguments) + "}"
    if origin is tuple:
        return f"{_metavar(arguments[0])} ..."
    return _metavar(arguments[0]) if origin in _UNIONS else _WORDS[hint][2]


def _spelled(value: Any) -> str:
    """Returns a value as it would be typed."""
    if isinstance(value, tuple):
        return " ".join(map(_spelled, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _comments(cls: type) -> dict[str, str]:
    """Returns the comment at the end of each field's line."""
    found: dict[str, str] = {}
    for owner in reversed([base for base in cls.__mro__ if dataclasses.is_dataclass(base)]):
        found |= dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(owner), re.MULTILINE))
    return found


def _unknown(command: str, groups: Sequence[Group], token: str) -> str:
    if not token.startswith("-"):
        return f"unexpected argument {token!r}; see spjax {command} --help"
    name = token.partition("=")[0].replace("_", "-")
    known = [group.flag(field) for group in groups for field, _, _ in group.fields()]
    same_setting = [flag for flag in known if _setting(flag) == _setting(name)]
    tail = f"did you mean {same_setting[0]}?" if same_setting else suggest(name, known, f"see spjax {command} --help")
    return f"unknown flag {name}; {tail}"


def _setting(flag: str) -> str:
    return flag.removeprefix("--").rpartition(".")[2]
