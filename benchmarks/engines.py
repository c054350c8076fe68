"""Whether the physics engines agree on ball catching: ``python -m benchmarks.engines``.

Throws of the initial distribution under noisy actions, the same in C MuJoCo and MJX: the error of one control step and of half a
second before any contact, and how often both decide alike whether a ball is caught. Writes ``benchmarks/results/engines.json``.
"""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import tyro
from jaxtyping import Array, Bool, Float

from spjax import envs
from spjax.analysis.results import Record, commit, device, record, versions, write_records
from spjax.contexts import Gaussian

RESULTS = Path(__file__).parent / "results" / "engines.json"
HALF_A_SECOND = 50  # control steps


@dataclasses.dataclass(frozen=True)
class Throws:
    """What one engine makes of all throws."""

    positions: Float[np.ndarray, "time throw joint"]  # of the arm, rad, after 1, 2, ... control steps
    states: Float[np.ndarray, "time throw coordinate"]  # positions and velocities of arm and ball
    touched: Bool[np.ndarray, "time throw"]  # whether a contact has ended the throw
    caught: Bool[np.ndarray, " throw"]


def main(throws: int = 1000, results: Path = RESULTS) -> None:
    """Plays the throws in both engines and compares.

    Args:
        throws: how many.
        results: file to write.
    """
    native, mjx = (played(engine, throws) for engine in ("native", "mjx"))
    scale = np.abs(native.states[0]).max(axis=1)
    one_step = np.abs(native.states[0] - mjx.states[0]).max(axis=1) / scale
    free = ~(native.touched | mjx.touched)[HALF_A_SECOND - 1]
    drift = np.abs(native.positions - mjx.positions)[HALF_A_SECOND - 1, free].max(axis=1)
    agree = native.caught == mjx.caught
    print(f"one control step: relative error at most {one_step.max():.1e}")
    print(
        f"half a second, {free.sum()} throws without contact: joint positions differ by at most {drift.max():.1e} rad"
    )
    print(f"caught {native.caught.mean():.1%} and {mjx.caught.mean():.1%}; the same decision in {agree.mean():.1%}")
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
    key_contexts, key_reset, key_actions, key_step = jax.random.split(jax.random.key(0), 4)
    initial = Gaussian.from_std(env.initial_mean, env.initial_std)
    contexts = env.context_space.clip(jax.vmap(initial.sample)(jax.random.split(key_contexts, count)))
    actions = jax.random.normal(key_actions, (env.horizon, count, len(env.action_lower)))
    keys = jax.random.split(key_step, count)

    def control_step(states: envs.EnvState, action: Array) -> tuple[envs.EnvState, tuple[Array, Array, Array]]:
        after = jax.vmap(env.step)(keys, states, action)  # a throw that has ended stays as it is
        physics = after.physics
        state = jnp.concatenate([physics.qpos, physics.qvel], axis=1)
        return after, (physics.qpos[:, :7], state, physics.contacts.any(axis=1))

    def play(contexts: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        states = jax.vmap(env.reset)(jax.random.split(key_reset, count), contexts)
        states, rows = jax.lax.scan(control_step, states, actions)
        return states.success, rows

    caught, rows = jax.tree.map(np.asarray, jax.jit(play)(contexts))
    return Throws(*rows, caught)


def _record(metric: str, values: Float[np.ndarray, " throw"]) -> Record:
    return record(
        experiment="engines",
        env="ball-catching",
        agent="none",
        teacher="none",
        metric=metric,
        seeds=list(range(len(values))),
        values=values,
        device=device(),
        versions=versions() | {"mujoco": mujoco.__version__},
        commit=commit(),
        command="python -m benchmarks.engines",
    )


if __name__ == "__main__":
    tyro.cli(main)
