"""What the strings and the success tests of ball-in-a-cup do, measured.

    python -m benchmarks.ball_in_a_cup initial [--rollouts 1000] [--string chain]    the policy that training starts with
    python -m benchmarks.ball_in_a_cup replay RUN... [--rollouts 20]                 trained policies, with both strings

Both count catches by the published distance, those of them whose ball is not inside the cup, and movements that a touch
ended. Writes ``benchmarks/results/ball-in-a-cup.json``; what another call has measured stays there.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from flax import struct
from jaxtyping import Array, Bool, Float

from benchmarks import command_line
from spjax.analysis.records import measured_here
from spjax.cache import keep_compiled_programs
from spjax.envs.ball_in_a_cup import BallInACup
from spjax.envs.ball_in_a_cup_scene import String
from spjax.runs.read import Run, load_run
from spjax.runs.results import Record, write_records_beside
from spjax.training.train import restore

RESULTS = Path(__file__).parent / "results" / "ball-in-a-cup.json"
BLOCK = 50  # movements at once
STRINGS: tuple[String, ...] = ("tendon", "chain")


@struct.dataclass
class Ends:
    """How movements ended."""

    caught: Bool[Array, " movement"]  # by the published distance
    outside: Bool[Array, " movement"]  # caught, and the ball is not inside the cup
    stopped: Bool[Array, " movement"]  # by a touch of arm or stem


def initial(
    rollouts: int = 1000,
    scales: tuple[float, ...] = (1.0, 2.0, 2.5),
    string: String = "tendon",
    results: Path = RESULTS,
) -> None:
    """Measures the policy that training starts with.

    Args:
        rollouts: of each scale.
        scales: of the cup.
        string: of the ball.
        results: file to write.
    """
    task = BallInACup(string=string)
    play = player(task)
    std = jnp.asarray(task.parameter_std)
    records: list[Record] = []
    for scale in scales:
        key = jax.random.key(0)
        theta = std[None] * jax.random.normal(key, (rollouts, std.size))
        ends = play(theta, jnp.full((rollouts, 1), scale))
        settings = {"string": string, "scale": scale, "rollouts": rollouts}
        records += _records("initial policy", settings, [0], ends)
    write_records_beside(results, records)


def replay(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    rollouts: int = 20,
    results: Path = RESULTS,
) -> None:
    """Plays the newest policies of run folders with both strings, in contexts of the target distribution.

    Args:
        runs: run folders of ball-in-a-cup with checkpoints.
        rollouts: of each seed.
        results: file to write.
    """
    if not runs:
        raise SystemExit("name at least one run folder of ball-in-a-cup")
    try:
        found = [load_run(folder) for folder in runs]
        for run in found:
            if run.config.task_name != "ball-in-a-cup" or len(run.groups()) > 1:
                raise ValueError(
                    f"{run.path} is not a run of ball-in-a-cup in which nothing is swept"
                )
        records = [one for run in found for one in _replayed(run, rollouts)]
    except ValueError as error:
        raise SystemExit(str(error)) from None
    write_records_beside(results, records)


Play = Callable[[Float[Array, "movement 15"], Float[Array, "movement 1"]], Ends]


def player(task: BallInACup) -> Play:
    """Returns a function that plays any number of movements, some at a time."""

    def block(theta: Array, context: Array) -> Ends:
        return jax.vmap(lambda *one: _ends(task, *one))(theta, context)

    compiled = jax.jit(block, compiler_options=task.compiler_options)

    def play(theta: Array, context: Array) -> Ends:
        missing = -len(theta) % BLOCK
        padded = [
            jnp.pad(rows, ((0, missing), (0, 0)), mode="edge")
            for rows in (theta, context)
        ]
        parts = [
            compiled(*(rows[start : start + BLOCK] for rows in padded))
            for start in range(0, len(padded[0]), BLOCK)
        ]
        return jax.tree.map(lambda *rows: jnp.concatenate(rows)[: len(theta)], *parts)

    return play


def _ends(task: BallInACup, theta: Array, context: Array) -> Ends:
    moved = task.move(theta, context)
    _, inside = task.ball_in_cup(moved.before, context)
    caught = task.outcome(moved, theta, context).success
    return Ends(caught, caught & ~inside, moved.num_steps < task.horizon)


def _replayed(run: Run, rollouts: int) -> Iterator[Record]:
    _, program, states = restore(run.path)

    def parameters(experiment, state) -> tuple[Array, Array]:
        key_contexts, key_theta = jax.random.split(jax.random.key(0))
        contexts = experiment.target_contexts(key_contexts, rollouts)
        theta = experiment.agent.sample_parameters(
            state.agent_state, experiment.task, key_theta, contexts
        )
        return theta, contexts

    theta, contexts = program.to_host(program.on_lanes(parameters, states))
    (group,) = run.groups()
    for string in STRINGS:
        play = player(BallInACup(string=string))
        flat = [
            jnp.asarray(rows.reshape(-1, rows.shape[-1])) for rows in (theta, contexts)
        ]
        ends = jax.tree.map(lambda rows: rows.reshape(-1, rollouts), play(*flat))
        settings = {
            "string": string,
            "trained with": run.config.settings["task"]["string"],
            "trained for": run.config.settings["task"]["catch"],
            "rollouts": rollouts,
        }
        names = {"agent": run.config.agent, "teacher": run.config.teacher}
        yield from _records(run.path.name, settings, run.seeds(group), ends, names)


def _records(
    what: str,
    settings: Mapping[str, str | float],
    seeds: list[int],
    ends: Ends,
    names: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    shares = {
        "caught": ends.caught,
        "caught by distance alone, not inside": ends.outside,
        "stopped by a touch": ends.stopped,
    }
    rates = {
        metric: np.asarray(rows, float).reshape(len(seeds), -1).mean(axis=1)
        for metric, rows in shares.items()
    }
    text = ", ".join(f"{metric} {np.mean(rate):.4f}" for metric, rate in rates.items())
    print(
        f"{what}, {', '.join(f'{k} {v}' for k, v in settings.items())}: {text}",
        flush=True,
    )
    for metric, rate in rates.items():
        yield measured_here(
            experiment="ball-in-a-cup",
            env="ball-in-a-cup",
            **(names or {"agent": what, "teacher": "none"}),
            settings=dict(settings),
            metric=metric,
            seeds=seeds,
            values=rate.tolist(),
            command=command_line("benchmarks.ball_in_a_cup"),
        )


if __name__ == "__main__":
    keep_compiled_programs()
    tyro.extras.subcommand_cli_from_dict({"initial": initial, "replay": replay})
