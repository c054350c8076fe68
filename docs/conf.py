"""Builds the documentation: ``make docs``, strictly, so that a broken link or reference ends it."""

import ast
import inspect
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from spjax import __version__  # noqa: E402

project = "spjax"
author = "The spjax authors"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"spjax {version}"
html_static_path: list[str] = []
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

# a part lists its settings in its docstring, `spjax.catalogue.part` puts them there
napoleon_custom_sections = [("Settings", "params_style")]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
autodoc_mock_imports = ["stable_baselines3"]  # not in the dev extra: it needs PyTorch
autodoc_use_type_comments = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
default_role = "code"
suppress_warnings = ["ref.python"]  # two rooms may have a class of one name


def readable(app, what, name, obj, options, lines: list[str]) -> None:
    """Makes reStructuredText of docstrings, which are written to be read as they are: bars are bars, indented text is literal."""
    literal, previous, result = False, "", []
    for line in lines:
        indented = line.startswith("    ")
        if what == "module" and indented and not previous.strip() and not literal:
            result += ["::", ""]
            literal = True
        literal = literal and (indented or not line.strip())
        plain = literal or "``" in line or line.startswith(("=", ".. ", "::"))
        result.append(line if plain else line.replace("|", "\\|"))
        previous = line
    lines[:] = result


def as_written(app, what, name, obj, options, signature, returns):
    """Returns the signature of a function as its source has it, with shapes; of a class none, its settings are listed."""
    if what == "class":
        return "", None
    if what not in ("function", "method"):
        return None
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(obj))).body
    except (OSError, TypeError):
        return None
    drop = node.args.posonlyargs + node.args.args
    if what == "method" and drop and drop[0].arg in ("self", "cls"):
        del (node.args.posonlyargs or node.args.args)[0]
    written = node.returns and ast.unparse(node.returns).strip("'")
    return f"({ast.unparse(node.args)})", written


def generated(app, what, name, obj, skip, options):
    """Skips the `replace` that every dataclass of flax gets."""
    return True if name == "replace" else None


def setup(app) -> None:
    """Connects what this project adds."""
    app.connect("autodoc-process-docstring", readable)
    app.connect("autodoc-process-signature", as_written)
    app.connect("autodoc-skip-member", generated)
