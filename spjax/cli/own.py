"""--use: the user's own files and modules, whose parts register themselves."""

from collections.abc import Sequence

from spjax import catalogue


def load_own(files: Sequence[str]) -> bool:
    """Loads files and modules of the user's; says whether there were any."""
    for where in files:
        catalogue.use(where)
    return bool(files)


def words(groups: Sequence[Sequence[str]]) -> list[str]:
    """Returns the words of a flag that may be repeated."""
    return [word for group in groups for word in group]


def uses_of(args: Sequence[str]) -> list[str]:
    """Returns what --use names in raw arguments, before anything is parsed."""
    found: list[str] = []
    taking = False
    for token in args:
        name, equals, value = token.partition("=")
        if token.startswith("--"):
            taking = name == "--use"
            found += [value] if taking and equals else []
        elif taking:
            found.append(token)
    return found
