"""What new contexts cost an environment of Brax: ``python -m benchmarks.speed.brax``.

Control steps a second under small random actions, everything in one compiled program, in three ways that compute the same
physics, each slot in a system of its own:

    cached      Brax's wrappers: a slot starts again in its first state and its first system
    finished    a slot that has finished starts in a new state and a new context (`spjax.envs.adapters.brax`)
    all         as before, but the reset of every slot is computed at every control step

They take turns, so that a busy moment of the machine meets all of them. Writes ``benchmarks/results/brax-speed.json``.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from brax.base import System
from brax.envs import get_environment, training
from brax.envs.base import Env as BraxEnv
from brax.envs.base import State
from flax import struct
from jaxtyping import Array, Bool, Float

from benchmarks import command_line
from benchmarks.speed.physics import by_turns
from spjax.analysis.records import measured_here
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.adapters.brax import BraxTask, FromBrax, wrap
from spjax.runs.results import Record, write_records
from spjax.settings import setting
from spjax.teachers import Random

RESULTS = Path(__file__).parents[1] / "results" / "brax-speed.json"
PUSH = 0.3  # standard deviation of the actions


@struct.dataclass
class Heavier(FromBrax):
    """Any environment of Brax; the context multiplies gravity."""

    environment: str = setting("inverted_pendulum", static=True)
    backend: str = setting("generalized", static=True)
    steps: int = setting(100, static=True, least=1, unit="control steps")

    context_space = ContextSpace(("gravity",), ("1",), (0.5,), (2.0,))
    initial = property(lambda self: Gaussian.from_std((1.0,), (0.2,)))
    target = initial
    name = property(lambda self: self.environment)
    horizon = property(lambda self: self.steps)

    def make(self) -> BraxEnv:
        """Returns Brax's environment."""
        return get_environment(self.environment, backend=self.backend)

    def system(self, system: System, context: Float[Array, "1"]) -> System:
        """Returns the system under another gravity; MJX reads it in one place, Brax's own engines in another."""
        return system.tree_replace(
            {
                "gravity": context[0] * system.gravity,
                "opt.gravity": context[0] * system.opt.gravity,
            }
        )

    def success(self, state: State) -> Bool[Array, ""]:
        """Returns whether it goes on."""
        return state.done == 0


@struct.dataclass
class HeavierAll(Heavier):
    """The same, with the reset of all slots at every control step."""

    costly_reset = False


def main(
    environment: str = "inverted_pendulum",
    backend: str = "generalized",
    slots: tuple[int, ...] = (128, 1024),
    horizon: int = 100,
    steps: int = 200,
    results: Path = RESULTS,
) -> None:
    """Measures all numbers of slots.

    Args:
        environment: of Brax.
        backend: of Brax.
        slots: stepped side by side.
        horizon: control steps of an episode at most.
        steps: control steps of a measurement, of each slot.
        results: file to write.
    """
    records: list[Record] = []
    task = Heavier(environment=environment, backend=backend, steps=horizon)
    everywhere = HeavierAll(environment=environment, backend=backend, steps=horizon)
    teacher = functools.partial(wrap(Random(), every=steps), episode_length=horizon)
    for count in slots:
        key = jax.random.PRNGKey(0)
        envs = {
            "cached": _cached(task, key, count),
            "finished": teacher(BraxTask(task)),
            "all": teacher(BraxTask(everywhere)),
        }
        runs, compiling, ended = {}, {}, {}
        for name, env in envs.items():
            runs[name], compiling[name], ended[name] = _compiled(env, key, count, steps)
        seconds = by_turns(runs)
        for name in envs:
            ratio = np.median(np.divide(seconds[name], seconds["cached"]))
            print(
                f"{environment}, {count} slots, {name}: {count * steps / np.median(seconds[name]):,.0f} control steps/s, "
                f"{ratio:.3f} of the time of cached resets, {ended[name]} episodes ended",
                flush=True,
            )
            records.append(
                measured_here(
                    experiment="brax-speed",
                    env=environment,
                    agent="none",
                    teacher="none" if name == "cached" else "random",
                    settings={
                        "backend": backend,
                        "resets": name,
                        "slots": count,
                        "horizon": horizon,
                        "steps": steps,
                        "episodes": ended[name],
                        "time of cached": float(ratio),
                    },
                    metric="control steps per second",
                    seeds=list(range(len(seconds[name]))),
                    values=[count * steps / value for value in seconds[name]],
                    compile_seconds=compiling[name],
                    packages=["brax"],
                    command=command_line("benchmarks.speed.brax"),
                )
            )
        write_records(results, records)


def _cached(task: FromBrax, key: Array, count: int) -> BraxEnv:
    """Returns the environment in Brax's own wrappers, each slot with a system of its own."""
    contexts = task.initial.sample_many(key, task.context_space, count)

    def systems(system: System) -> tuple[System, System]:
        # the leaves that the context changes have an axis of slots, the others none
        many = jax.vmap(lambda context: task.system(system, context))(contexts)
        none = jax.tree.map(lambda _: None, system)
        names = {"gravity": 0, "opt.gravity": 0}
        kept = {"gravity": many.gravity, "opt.gravity": many.opt.gravity}
        return system.tree_replace(kept), none.tree_replace(names)

    return training.wrap(task.make(), task.horizon, randomization_fn=systems)


def _compiled(
    env: BraxEnv, key: Array, count: int, steps: int
) -> tuple[Callable[[], object], float, int]:
    """Returns a call, the seconds of compiling it, and how many episodes end in it."""

    def play(state: State, key: Array) -> tuple[State, Array]:
        def control_step(state: State, key: Array) -> tuple[State, Array]:
            action = PUSH * jax.random.normal(key, (count, env.action_size))
            after = env.step(state, action)
            return after, after.done.sum()

        return jax.lax.scan(control_step, state, jax.random.split(key, steps))

    start = jax.jit(env.reset)(jax.random.split(key, count))
    begin = time.perf_counter()
    compiled = jax.jit(play).lower(start, key).compile()
    seconds = time.perf_counter() - begin
    ended = int(jnp.sum(compiled(start, key)[1]))
    return lambda: jax.block_until_ready(compiled(start, key)), seconds, ended


if __name__ == "__main__":
    tyro.cli(main)
