"""Runs the commands, and turns every error into one sentence and an exit code.

2 is for the user's errors, 1 for failures, and, as shells have it, 130 for Ctrl-C and 143 for SIGTERM.
"""

import contextlib
import functools
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TextIO

import spjax
from spjax.cli.errors import Failure, Stopped, UsageError, describe
from spjax.cli.terminal import replace_missing_characters

INTERRUPTED = 130  # 128 and the number of SIGINT
_COMMANDS = {  # by the function that runs it
    "train": "spjax.cli.training:train",
    "sweep": "spjax.cli.training:sweep",
    "resume": "spjax.cli.training:resume",
    "evaluate": "spjax.cli.evaluation:evaluate",
    "plot": "spjax.cli.runs:plot",
    "render": "spjax.cli.render:render",
    "report": "spjax.cli.reporting:report",
    "list": "spjax.cli.runs:show",
}


def run(args: list[str], of_process: bool) -> int:
    """Runs one command and returns the exit code.

    Args:
        args: the name of the command, and what follows it.
        of_process: whether the process has nothing else to do; then Ctrl-C ends it at once.
    """
    replace_missing_characters()
    try:
        with _warnings_of_ours_in_a_sentence():
            _dispatch(args)
    except UnicodeError as error:  # a ValueError, which nobody typed
        return _complain(f"text that cannot be read or written: {error}", 1)
    except (UsageError, ValueError) as error:
        return _complain(error, 2)
    except Failure as error:
        return _complain(error, 1)
    except Stopped as error:
        return _complain(error, error.code)
    except OSError as error:
        return _complain(describe(error), 1)
    except (AssertionError, RuntimeError):
        if (problem := _no_device()) is None:
            raise
        return _complain(problem, 1)
    except KeyboardInterrupt:
        code = _complain("interrupted", INTERRUPTED)
        if of_process:
            os._exit(
                code
            )  # a regular exit would wait for the computation that runs, which cannot be cancelled
        return code
    return 0


def _dispatch(args: list[str]) -> None:
    name, *rest = args
    if name == "--version":
        print(f"spjax {spjax.__version__}")
    elif name in _COMMANDS:
        from spjax.cli import help  # and what it brings, which --version does without

        run_it = functools.partial(_run, name, rest)
        help.show(args, run_it) if help.asks_for_help(rest) else run_it()
    else:
        from spjax.cli.flags import suggest

        raise UsageError(
            f"unknown command {name!r}; {suggest(name, _COMMANDS, 'see spjax --help')}"
        )


def _run(name: str, args: list[str]) -> None:
    module, _, function = _COMMANDS[name].partition(":")
    getattr(importlib.import_module(module), function)(args)


def _no_device() -> str | None:
    """Returns one sentence where JAX finds nothing to compute on; None where that is not what went wrong."""
    import jax

    try:
        jax.devices()
    except (AssertionError, RuntimeError):
        chosen = os.environ.get("JAX_PLATFORMS", "")
        return f"JAX finds no device for JAX_PLATFORMS={chosen} on this machine; unset it to compute on what there is"
    return None


@contextlib.contextmanager
def _warnings_of_ours_in_a_sentence() -> Iterator[None]:
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__module__.partition(".")[0] == "spjax":
            _complain(message, 0)
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def _complain(what: object, code: int) -> int:
    print("spjax:", *str(what).split(), file=sys.stderr)
    return code
