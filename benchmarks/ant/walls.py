"""Whether an ant gets past the wall other than through its gate: ``python -m benchmarks.ant walls [RUN...]``.

An episode in each of 1,000 contexts from all over the context space, of three kinds of ants that know nothing (a new torque at
every control step; torques that are held for 0.4 s; the same, but thrown at the wall), and of the newest policies of run
folders. Every control step of a torso from before the wall's middle to behind it is looked at. Writes
``benchmarks/results/ant-walls.json``.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from flax import struct
from jaxtyping import Array, Bool, Float

from benchmarks import command_line
from spjax.analysis.records import measured_here
from spjax.envs import ant_scene as scene
from spjax.envs.ant import Ant
from spjax.envs.base import EnvState
from spjax.runs.read import Run, load_run
from spjax.runs.results import Record, write_records_beside
from spjax.training.experiment import Experiment, RunState
from spjax.training.train import restore

RESULTS = Path(__file__).parents[1] / "results" / "ant-walls.json"
BLOCK = 250  # contexts at once
HELD = 10  # control steps
NEAR = (
    scene.WALL_X - scene.WALL_THICKNESS / 2 - 1.0
)  # m, of a torso whose legs reach the wall
LAUNCH_X = (0.0, NEAR)  # m
LAUNCH_SPEED, LAUNCH_CLIMB = (
    (2.0, 15.0),
    (0.0, 6.0),
)  # m/s, towards the wall and upwards
Kind = Literal["noise", "held", "launched"]
KINDS: tuple[Kind, ...] = ("noise", "held", "launched")
Act = Callable[[Array, Array, Float[Array, "ant observation"]], Float[Array, "ant 8"]]


@struct.dataclass
class Watched:
    """What each ant has done in its episode."""

    arrived: Bool[Array, " ant"]  # came so near that a leg reaches the wall
    gate: Bool[Array, " ant"]  # went through the gate
    through: Bool[Array, " ant"]  # got behind the wall beside the gate
    over: Bool[Array, " ant"]  # got behind the wall above it
    exploded: Bool[Array, " ant"]
    highest: Float[Array, " ant"]  # m, of the torso

    @classmethod
    def nothing(cls, count: int) -> "Watched":
        """Returns what ants have done before their episodes."""
        no = jnp.zeros(count, bool)
        return cls(no, no, no, no, no, jnp.zeros(count))


def walls(
    runs: tyro.conf.Positional[tuple[Path, ...]] = (),
    contexts: int = 1000,
    results: Path = RESULTS,
) -> None:
    """Counts ants that get past the wall, and how.

    Args:
        runs: run folders of the ant with checkpoints, finished or not.
        contexts: episodes of each kind of ants, and of each seed.
        results: file to write; what another call has measured stays there.
    """
    try:
        found = [load_run(folder) for folder in runs]
        for run in found:
            if run.config.task_name != "ant" or len(run.groups()) > 1:
                raise ValueError(
                    f"{run.path} is not a run of the ant in which nothing is swept"
                )
        records = [one for kind in KINDS for one in _untrained(kind, contexts)]
        records += [one for run in found for one in _trained(run, contexts)]
    except ValueError as error:
        raise SystemExit(str(error)) from None
    write_records_beside(results, records)


def crossing(
    before: Float[Array, "3"], after: Float[Array, "3"], context: Float[Array, "2"]
) -> tuple[Bool[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """Returns whether a torso has gone to behind the wall through the gate, through the wall, or over it.

    Args:
        before: its place a control step ago [m].
        after: its place now.
        context: position and width of the gate.
    """
    crosses = (before[0] < scene.WALL_X) & (after[0] >= scene.WALL_X)
    step = jnp.where(crosses, after[0] - before[0], 1.0)
    _, y, z = before + (scene.WALL_X - before[0]) / step * (after - before)
    over = crosses & (z > scene.WALL_HEIGHT)
    inside = jnp.abs(y - context[0]) < context[1] / 2
    return crosses & inside & ~over, crosses & ~inside & ~over, over


def watch(
    env: Ant, key: Array, states: EnvState, act: Act, horizon: int | None = None
) -> Watched:
    """Returns what ants do from their first states on.

    Args:
        env: the ant.
        key: for actions.
        states: [ant].
        act: (key, time, observations) -> actions.
        horizon: control steps; None for the episode's.
    """
    count = len(states.reward)
    key_act, key_step = jax.random.split(key)
    keys_step = jax.random.split(key_step, count)  # the task is deterministic

    def control_step(
        carry: tuple[EnvState, Watched], time: Array
    ) -> tuple[tuple[EnvState, Watched], None]:
        before, seen = carry
        actions = act(key_act, time, before.observation)
        after = jax.vmap(env.step)(keys_step, before, actions)
        exploded = seen.exploded | after.terminated
        places = [state.physics.qpos[:, :3] for state in (before, after)]
        gate, through, over = jax.vmap(crossing)(*places, after.context)
        seen = Watched(
            arrived=seen.arrived | ((places[1][:, 0] > NEAR) & ~exploded),
            gate=seen.gate | (gate & ~exploded),
            through=seen.through | (through & ~exploded),
            over=seen.over | (over & ~exploded),
            exploded=exploded,
            highest=jnp.where(
                exploded, seen.highest, jnp.maximum(seen.highest, places[1][:, 2])
            ),
        )
        return (after, seen), None

    start = (states, Watched.nothing(count))
    (_, seen), _ = jax.lax.scan(control_step, start, jnp.arange(horizon or env.horizon))
    return seen


def anywhere(key: Array, env: Ant, count: int) -> Float[Array, "count 2"]:
    """Returns contexts from all over the context space."""
    lower, upper = (
        jnp.asarray(b)[None] for b in (env.context_space.lower, env.context_space.upper)
    )
    return lower + (upper - lower) * jax.random.uniform(key, (count, 2))


def launched(key: Array, states: EnvState) -> EnvState:
    """Returns the ants somewhere before the wall, thrown at it."""
    count, now = len(states.reward), states.physics
    key_x, key_speed, key_climb = jax.random.split(key, 3)
    x = jax.random.uniform(key_x, (count,), minval=LAUNCH_X[0], maxval=LAUNCH_X[1])
    speed, climb = (
        jax.random.uniform(k, (count,), minval=least, maxval=most)
        for k, (least, most) in ((key_speed, LAUNCH_SPEED), (key_climb, LAUNCH_CLIMB))
    )
    qvel = now.qvel.at[:, 0].set(speed).at[:, 2].set(climb)
    return states.replace(physics=now.replace(qpos=now.qpos.at[:, 0].set(x), qvel=qvel))


def _untrained(kind: Kind, contexts: int) -> Iterator[Record]:
    env = Ant()

    def act(key: Array, time: Array, observations: Array) -> Array:
        key = jax.random.fold_in(key, time if kind == "noise" else time // HELD)
        if kind == "noise":  # as of a policy before training
            return jax.random.normal(key, (BLOCK, 8))
        return jax.random.uniform(key, (BLOCK, 8), minval=-1.0, maxval=1.0)

    def block(key: Array) -> Watched:
        key_contexts, key_reset, key_launch, key_play = jax.random.split(key, 4)
        drawn = anywhere(key_contexts, env, BLOCK)
        states = jax.vmap(env.reset)(jax.random.split(key_reset, BLOCK), drawn)
        if kind == "launched":
            states = launched(key_launch, states)
        return watch(env, key_play, states, act)

    play = jax.jit(block, compiler_options=env.compiler_options)
    keys = jax.random.split(jax.random.key(0), -(-contexts // BLOCK))
    blocks = [jax.device_get(play(key)) for key in keys]
    seen = jax.tree.map(lambda *rows: np.concatenate(rows)[None, :contexts], *blocks)
    yield from _records(kind, [0], seen, {"agent": kind, "teacher": "none"})


def _trained(run: Run, contexts: int) -> Iterator[Record]:
    _, program, states = restore(run.path)

    def played(experiment: Experiment, state: RunState) -> Watched:
        env, agent = experiment.task, experiment.agent
        key_contexts, key_reset, key_play = jax.random.split(jax.random.key(0), 3)
        drawn = anywhere(key_contexts, env, contexts)
        starts = jax.vmap(env.reset)(jax.random.split(key_reset, contexts), drawn)

        def act(key: Array, time: Array, observations: Array) -> Array:
            key = jax.random.fold_in(key, time)
            return agent.act(state.agent_state, env, key, observations)

        return watch(env, key_play, starts, act)

    seen = program.to_host(program.on_lanes(played, states))
    names = {"agent": run.config.agent, "teacher": run.config.teacher}
    (group,) = run.groups()
    yield from _records(run.path.name, run.seeds(group), seen, names)


def _records(
    what: str, seeds: list[int], seen: Watched, names: Mapping[str, str]
) -> Iterator[Record]:
    counted = {
        "came to the wall": seen.arrived.sum(axis=1),
        "through the gate": seen.gate.sum(axis=1),
        "through the wall": seen.through.sum(axis=1),
        "over the wall": seen.over.sum(axis=1),
        "exploded": seen.exploded.sum(axis=1),
        "highest torso [m]": seen.highest.max(axis=1),
    }
    contexts = seen.arrived.shape[1]
    text = ", ".join(
        f"{metric} {', '.join(f'{value:g}' for value in values)}"
        for metric, values in counted.items()
    )
    print(f"{what}, {contexts} contexts: {text}", flush=True)
    for metric, values in counted.items():
        yield measured_here(
            experiment="ant-walls",
            env="ant",
            **names,
            settings={"ants": what, "contexts": contexts},
            metric=metric,
            seeds=seeds,
            values=values.astype(float),
            command=command_line("benchmarks.ant"),
        )
