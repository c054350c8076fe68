"""The table of built-in parts agrees with the classes that it names."""

import ast
import importlib
from pathlib import Path

import pytest

import spjax
from spjax import catalogue

TABLE = {
    (kind, name): where
    for kind, entries in catalogue._BUILT_IN.items()
    for name, where in entries.items()
}


@pytest.mark.parametrize(("kind", "name"), list(TABLE))
def test_every_entry_of_the_table_is_the_class_that_it_says(kind, name):
    entry = catalogue.find(kind, name)
    module, _, attribute = TABLE[kind, name].partition(":")
    assert entry.cls is getattr(importlib.import_module(module), attribute)
    assert (entry.kind, entry.name, entry.cls.kind) == (kind, name, kind)
    assert set(entry.fixed) <= set(entry.cls.declared())


def test_every_part_that_registers_itself_is_in_the_table():
    """Read from the sources: a part that the table lacks would never be imported."""
    package = Path(spjax.__file__).parent
    sources = {
        path for folder in (package, package / "envs") for path in folder.rglob("*.py")
    }
    assert registered(package, sources) == TABLE


def registered(package, sources):
    """Returns what the decorators in these files put into the catalogue, by kind and name."""
    found = {}
    for path in sources:
        module = ".".join(
            (package.name, *path.relative_to(package).with_suffix("").parts)
        )
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(node, "decorator_list", ()):
                if (
                    isinstance(decorator, ast.Call)
                    and getattr(decorator.func, "id", None) == "part"
                ):
                    kind, name = (argument.value for argument in decorator.args)
                    found[kind, name] = f"{module}:{node.name}"
    return found
