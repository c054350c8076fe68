"""Whether the physics engines agree on ball catching: ``python -m benchmarks.engines``.

Throws of the initial distribution under noisy actions, the same in C MuJoCo and MJX: the error of one control step and of half a
second before any contact, and how often both decide alike whether a ball is caught. Writes ``benchmarks/results/engines.json``.
"""

import dataclasses
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from flax import struct
from jaxtyping import Array, Bool, Float

from benchmarks import command_line
from spjax import envs
from spjax.analysis.records import measured_here
from spjax.runs.results import Record, write_records

RESULTS = Path(__file__).parent / "results" / "engines.json"
STEPS = 120  # control steps a throw; by then every ball has touched something
HALF_A_SECOND = 50  # control steps
BATCH = 100  # throws at once


@struct.dataclass
class Throws:
    """What one engine makes of all throws."""

    positions: Float[
        np.ndarray, "throw time joint"
    ]  # of the arm, rad, after 1, 2, ... control steps
    states: Float[
        np.ndarray, "throw time coordinate"
    ]  # positions and velocities of arm and ball
    touched: Bool[np.ndarray, "throw time"]  # whether a contact has ended the throw
    caught: Bool[np.ndarray, " throw"]


def main(throws: int = 1000, results: Path = RESULTS) -> None:
    """Plays the throws in both engines and compares.

    Args:
        throws: how many.
        results: file to write.
    """
    native, mjx = (played(engine, throws) for engine in ("native", "mjx"))
    one_step = np.abs(native.states - mjx.states)[:, 0].max(axis=1) / np.abs(
        native.states[:, 0]
    ).max(axis=1)
    free = ~(native.touched | mjx.touched)[:, HALF_A_SECOND - 1]
    drift = np.abs(native.positions - mjx.positions)[free, HALF_A_SECOND - 1].max(
        axis=1
    )
    agree = native.caught == mjx.caught
    if not (native.touched & mjx.touched)[:, -1].all():
        raise RuntimeError(f"some throws have not ended after {STEPS} control steps")
    print(f"one control step: relative error at most {one_step.max():.1e}")
    print(
        f"half a second, {free.sum()} throws without contact: joint positions differ by at most {drift.max():.1e} rad"
    )
    print(
        f"caught {native.caught.mean():.1%} and {mjx.caught.mean():.1%}; the same decision in {agree.mean():.1%}"
    )
    write_records(
        results,
        [
            _record("relative error of one control step", one_step),
            _record("joint error after half a second without contact [rad]", drift),
            _record("same decision whether the ball is caught", agree.astype(float)),
        ],
    )


def played(engine: str, count: int) -> Throws:
    """Returns the throws of one engine; the same throws and actions whatever the engine."""
    env = dataclasses.replace(envs.BallCatching(), engine=engine)

    def throw(key: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        key_context, key_reset, key_actions, key_step = jax.random.split(key, 4)
        start = env.reset(key_reset, env.initial.sample(key_context, env.context_space))
        actions = jax.random.normal(key_actions, (STEPS, len(env.action_lower)))

        def control_step(
            state: envs.EnvState, action: Array
        ) -> tuple[envs.EnvState, tuple[Array, Array, Array]]:
            after = env.step(
                key_step, state, action
            )  # a throw that has ended stays as it is
            physics = after.physics
            return after, (
                physics.qpos[:7],
                jnp.concatenate([physics.qpos, physics.qvel]),
                physics.contacts.any(),
            )

        end, rows = jax.lax.scan(control_step, start, actions)
        return end.success, rows

    keys = jax.random.split(jax.random.key(0), count)
    began = time.perf_counter()
    compiled = (
        jax.jit(jax.vmap(throw), compiler_options=env.compiler_options)
        .lower(keys[: min(BATCH, count)])
        .compile()
    )
    print(f"{engine}: compiled in {time.perf_counter() - began:.0f} s", flush=True)
    parts = []
    for start in range(0, count, BATCH):
        part = np.minimum(
            np.arange(start, start + BATCH)[: min(BATCH, count)], count - 1
        )  # the last throw fills up
        caught, rows = jax.tree.map(np.asarray, compiled(keys[part]))
        parts.append(Throws(*rows, caught))
        done = min(start + BATCH, count)
        print(
            f"{engine}: {done} of {count} throws after {time.perf_counter() - began:.0f} s",
            flush=True,
        )
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)


def _record(metric: str, values: Float[np.ndarray, " throw"]) -> Record:
    return measured_here(
        experiment="engines",
        env="ball-catching",
        agent="none",
        teacher="none",
        metric=metric,
        seeds=list(range(len(values))),
        values=values,
        command=command_line("benchmarks.engines"),
    )


if __name__ == "__main__":
    tyro.cli(main)
