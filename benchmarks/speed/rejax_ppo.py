"""Whole self-paced training beside the PPO of Rejax alone, on the 3-D point mass: ``python -m benchmarks.speed.rejax_ppo``.

    python -m benchmarks.speed.rejax_ppo [--seeds 1 8 64] [--iterations 100] [--turns 3]

Rejax's users train many seeds as one program, ``jax.vmap(agent.train)``, as spjax does; so the two are nearest. Both train PPO
with the published constants: 4 environments, 512 steps, 8 epochs of 32 minibatches, networks of 64 and 64. Rejax plays the
same task in contexts of the target distribution, without curriculum and evaluation; ours has both, and writes its run folder.
Sides take turns, so that a busy moment of the machine meets both. Times are without what compiles, which has records of
its own, and is less where the machine's cache has the program. Writes ``benchmarks/results/peers.json``, beside what the
file has of other peers, and needs ``pip install 'spjax[bench]'``.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

import spjax
from benchmarks import command_line
from benchmarks.speed.peers.timing import run_ours
from spjax.analysis.records import measured_here
from spjax.contexts import ContextDistribution
from spjax.envs.base import Env, EnvState
from spjax.runs.results import Record, write_records_beside
from spjax.training.config import RunConfig

try:
    from gymnax.environments import spaces
    from rejax import PPO
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"the comparison needs {missing.name}: pip install 'spjax[bench]'"
    ) from None

RESULTS = Path(__file__).parents[1] / "results" / "peers.json"
TASK = "point-mass-3d"
MILLISECONDS = "ms a seed and iteration"
Stepped = tuple[Array, EnvState, Array, Bool[Array, ""], dict[str, Array]]


@dataclasses.dataclass(frozen=True)
class Params:
    """What Rejax asks an environment's parameters for."""

    max_steps_in_episode: int


jax.tree_util.register_dataclass(
    Params, data_fields=(), meta_fields=("max_steps_in_episode",)
)


class Task:
    """A task of ours as Rejax plays environments: a finished episode starts again, in a new context of one distribution."""

    def __init__(self, task: Env, contexts: ContextDistribution) -> None:
        """Takes both."""
        self.task, self.contexts = task, contexts

    @property
    def default_params(self) -> Params:
        """The length of an episode."""
        return Params(self.task.horizon)

    def reset(self, key: Array, params: Params) -> tuple[Array, EnvState]:
        """Returns observation and state at the start of an episode."""
        key_context, key = jax.random.split(key)
        context = self.contexts.sample(key_context, self.task.context_space)
        state = self.task.reset(key, context)
        return state.observation, state

    def step(
        self,
        key: Array,
        state: EnvState,
        action: Float[Array, " action"],
        params: Params,
    ) -> Stepped:
        """Returns what follows a control step; at the end of an episode, the start of the next one."""
        key_step, key_reset = jax.random.split(key)
        after = self.task.step(key_step, state, action)
        done = after.terminated | after.truncated
        _, first = self.reset(key_reset, params)
        following = jax.tree.map(
            lambda new, old: jnp.where(done, new, old), first, after
        )
        return following.observation, following, after.reward, done, {}

    def action_space(self, params: Params) -> spaces.Box:
        """Returns the bounds of the actions."""
        low, high = (
            np.asarray(side, np.float32)
            for side in (self.task.action_lower, self.task.action_upper)
        )
        return spaces.Box(low, high, low.shape)

    def observation_space(self, params: Params) -> spaces.Box:
        """Returns no bounds, and the size."""
        return spaces.Box(-jnp.inf, jnp.inf, (self.task.observation_size,))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Task":
        """Returns itself: it has no state, and Rejax copies what it is configured with."""
        return self


def rejax_of(config: RunConfig) -> PPO:
    """Returns Rejax's PPO with the constants of a preset, without evaluation."""
    ppo = config.agent
    steps = config.num_iterations * ppo.num_envs * ppo.num_steps
    agent = PPO.create(
        env=Task(config.task, config.task.target),
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": ppo.hidden},
        total_timesteps=steps,
        eval_freq=steps,
        skip_initial_evaluation=True,
        num_envs=ppo.num_envs,
        num_steps=ppo.num_steps,
        num_minibatches=ppo.num_minibatches,
        num_epochs=ppo.num_epochs,
        learning_rate=ppo.learning_rate,
        gamma=ppo.discount,
        gae_lambda=ppo.gae_lambda,
        clip_eps=ppo.clip_range,
        vf_coef=ppo.value_coefficient,
        ent_coef=ppo.entropy_coefficient,
    )
    return agent.replace(eval_callback=lambda agent, state, key: ())


def compiled_rejax(config: RunConfig) -> tuple[Callable[[], None], float]:
    """Returns a call that trains all seeds, and the seconds that it took to compile."""
    agent = rejax_of(config)
    keys = jax.vmap(jax.random.key)(jnp.asarray(config.seeds))
    start = time.perf_counter()
    train = jax.jit(jax.vmap(agent.train)).lower(keys).compile()
    seconds = time.perf_counter() - start
    return lambda: jax.block_until_ready(train(keys)), seconds


def compare(seeds: int, iterations: int, turns: int, command: str) -> list[Record]:
    """Returns the records of one number of seeds."""
    config = dataclasses.replace(
        spjax.preset(TASK, "ppo", "self-paced"),
        seeds=tuple(range(1, seeds + 1)),
        num_iterations=iterations,
    )
    peer, peer_compiles = compiled_rejax(config)
    ours, theirs, compiles = [], [], []
    for _ in range(turns):
        wall, compiling = run_ours("ppo", iterations, seeds)
        ours.append(wall - compiling)
        compiles.append(compiling)
        start = time.perf_counter()
        peer()
        theirs.append(time.perf_counter() - start)
    per = 1e3 / (seeds * iterations)
    measured = {
        ("ppo", f"spjax: {MILLISECONDS}, {seeds} seeds"): [per * s for s in ours],
        ("rejax", f"rejax: {MILLISECONDS}, {seeds} seeds"): [per * s for s in theirs],
        ("ppo", f"rejax over spjax, {seeds} seeds"): [
            their / our for our, their in zip(ours, theirs, strict=True)
        ],
        ("ppo", f"spjax: compile seconds, {seeds} seeds"): compiles[:1],
        ("rejax", f"rejax: compile seconds, {seeds} seeds"): [peer_compiles],
    }
    for (_, metric), values in measured.items():
        print(f"{metric}: {statistics.mean(values):.3g}", flush=True)
    return [
        measured_here(
            experiment="peers",
            env=TASK,
            agent=agent,
            teacher="self-paced" if agent == "ppo" else "default",
            schedule="proportion" if agent == "ppo" else None,
            metric=metric,
            seeds=range(len(values)),
            values=values,
            iterations=iterations,
            packages=("rejax", "gymnax"),
            command=command,
        )
        for (agent, metric), values in measured.items()
    ]


def main() -> None:
    """Measures and writes the records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    command = command_line("benchmarks.speed.rejax_ppo")
    for seeds in arguments.seeds:
        records = compare(seeds, arguments.iterations, arguments.turns, command)
        write_records_beside(arguments.results, records)


if __name__ == "__main__":
    main()
