"""Dispatches the commands, and turns every error into one sentence and an exit code: 2 for the user's, 1 for failures."""

import importlib
import os
import sys
from collections.abc import Sequence

import spjax
from spjax.cli.errors import Failure, UsageError, describe
from spjax.cli.terminal import replace_missing_characters

HELP = """\
spjax: self-paced curricula for reinforcement learning, jitted end to end.

    spjax train ENV      train seeds of one experiment
    spjax sweep ENV      train a grid of settings, in one compiled program
    spjax resume RUN     continue a run that was stopped or killed
    spjax evaluate RUN   play new episodes with the newest policies of a run
    spjax plot RUN ...   draw the pictures of runs
    spjax render RUN     film episodes of the newest policy: a video and a web page
    spjax list           environments, agents, teachers, presets, and your runs

for example:

    spjax train point-mass-3d --agent ppo --teacher self-paced --teacher.schedule bound --seeds 20
    spjax sweep point-mass-3d --over teacher.kl_proportion=0.4,0.8,1.6 --seeds 20
    spjax evaluate runs/point-mass-3d-ppo-self-paced-bound --context 2.5 0.5 0

Each command has its own --help; settings of agents and teachers appear once they are chosen:

    spjax train point-mass-3d --agent ppo --teacher self-paced --help
"""

_COMMANDS = {  # by the function that runs it
    "train": "spjax.cli.training:train",
    "sweep": "spjax.cli.training:sweep",
    "resume": "spjax.cli.training:resume",
    "evaluate": "spjax.cli.evaluation:evaluate",
    "plot": "spjax.cli.runs:plot",
    "render": "spjax.cli.render:render",
    "list": "spjax.cli.runs:show",
}


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code; `args` are those of the process where None."""
    replace_missing_characters()
    try:
        _run(list(sys.argv[1:] if args is None else args))
    except UnicodeError as error:  # a ValueError, which nobody typed
        return _complain(f"text that cannot be read or written: {error}", 1)
    except (UsageError, ValueError) as error:
        return _complain(error, 2)
    except Failure as error:
        return _complain(error, 1)
    except (AssertionError, RuntimeError):
        if (problem := _no_device()) is None:
            raise
        return _complain(problem, 1)
    except OSError as error:
        return _complain(describe(error), 1)
    except KeyboardInterrupt:
        code = _complain("interrupted", 1)
        if args is None:
            os._exit(code)  # a regular exit would wait for the computation that runs, which cannot be cancelled
        return code
    return 0


def _run(args: list[str]) -> None:
    if not args or args[0] in ("-h", "--help", "help"):
        print(HELP, end="")
    elif args[0] == "--version":
        print(f"spjax {spjax.__version__}")
    elif args[0] not in _COMMANDS:
        # Imported here, as all that follows, because the help above should not wait for it.
        from spjax.cli.flags import suggest

        raise UsageError(f"unknown command {args[0]!r}; {suggest(args[0], _COMMANDS, 'see spjax --help')}")
    else:
        module, _, function = _COMMANDS[args[0]].partition(":")
        getattr(importlib.import_module(module), function)(args[1:])


def _no_device() -> str | None:
    """Returns one sentence where JAX finds nothing to compute on; None where that is not what went wrong."""
    import jax

    try:
        jax.devices()
    except (AssertionError, RuntimeError):
        chosen = os.environ.get("JAX_PLATFORMS", "")
        return f"JAX finds no device for JAX_PLATFORMS={chosen} on this machine; unset it to compute on what there is"
    return None


def _complain(what: object, code: int) -> int:
    print("spjax:", *str(what).split(), file=sys.stderr)
    return code
