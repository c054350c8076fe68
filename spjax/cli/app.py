"""The first help, which answers at once: nothing else is imported for it."""

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HELP = """\
spjax: self-paced curricula for reinforcement learning, jitted end to end.

    spjax train TASK     train seeds of one experiment
    spjax sweep TASK     train a grid of settings, in one compiled program
    spjax resume RUN     continue a run that was stopped or killed, or make it longer
    spjax evaluate RUN   play new episodes with the newest policies of a run
    spjax plot RUN ...   draw the pictures of runs
    spjax render RUN     film episodes of the newest policy: a video and a web page
    spjax report RUN ... one HTML file about runs: results, curves, contexts, a rollout
    spjax list [TASK]    tasks, agents, teachers, presets, and your runs

for example:

    spjax train point-mass-3d --agent ppo --teacher self-paced --teacher.schedule bound --seeds 20
    spjax sweep point-mass-3d --over teacher.schedule.zeta=0.4,0.8,1.6 --seeds 20
    spjax evaluate runs/point-mass-3d-ppo-self-paced-bound --context 2.5 0.5 0

Each command has its own --help; settings of agents and teachers appear once they are chosen:

    spjax train point-mass-3d --agent ppo --teacher self-paced --help
"""


def main(args: "Sequence[str] | None" = None) -> int:
    """Runs one command and returns the exit code; `args` are those of the process where None."""
    given = sys.argv[1:] if args is None else list(args)
    if not given or given[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    of_process = args is None
    if of_process:
        # a program that is traced is many small objects that live long: Python would look through them at every 700th
        gc.set_threshold(50_000, 20, 100)
    from spjax.cli.commands import run

    return run(given, of_process=of_process)
