"""Where the return of ball catching comes from: ``python -m benchmarks.catching_return RUN...``.

Plays throws of the target distribution with the newest policies of run folders and splits the discounted return into what the
arm earns for every control step, what its actions cost and what its catches earn; once with drawn actions, as in training and
evaluation, and once with the policy's mean actions. Writes ``benchmarks/results/catching-return.json``.
"""

from collections.abc import Iterator
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
from spjax.envs.ball_catching import ACTION_COST, ALIVE_REWARD
from spjax.runs.read import Run, load_run
from spjax.runs.results import Record, write_records
from spjax.training.experiment import Experiment, RunState
from spjax.training.train import restore

RESULTS = Path(__file__).parent / "results" / "catching-return.json"
KINDS = ("drawn", "mean")  # of actions


@struct.dataclass
class Split:
    """Of one policy, means over the throws; the first three are discounted and add up to the return."""

    alive: Float[Array, ""]
    actions: Float[Array, ""]
    catches: Float[Array, ""]
    success_rate: Float[Array, ""]
    reward_of_a_catch: Float[
        Array, ""
    ]  # not discounted, between 25 and 75 by alignment; NaN without a catch
    mean_squared_action: Float[
        Array, ""
    ]  # (rad/s)^2, sum over the joints, mean over all control steps


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    throws: int = 200,
    results: Path = RESULTS,
) -> None:
    """Splits the returns of the newest policies.

    Args:
        runs: run folders of ball catching with checkpoints, finished or not.
        throws: of each policy.
        results: file to write.
    """
    if not runs:
        raise SystemExit("name at least one run folder of ball catching")
    keep_compiled_programs()
    try:
        found = [load_run(folder) for folder in runs]
        for run in found:
            if run.config.task_name != "ball-catching" or len(run.groups()) > 1:
                raise ValueError(
                    f"{run.path} is not a run of ball catching in which nothing is swept"
                )
        write_records(
            results, [record for run in found for record in _records(run, throws)]
        )
    except ValueError as error:
        raise SystemExit(str(error)) from None


def _records(run: Run, throws: int) -> Iterator[Record]:
    _, program, states = restore(run.path)
    iteration = program.iteration(states)

    def splits(experiment: Experiment, state: RunState) -> Split:
        return jax.vmap(lambda drawn: split_return(experiment, state, throws, drawn))(
            jnp.array([True, False])
        )

    both = vars(program.to_host(program.on_lanes(splits, states)))
    for index, kind in enumerate(KINDS):
        found = {metric: values[:, index] for metric, values in both.items()}
        means = ", ".join(
            f"{metric} {np.mean(values):.3g}" for metric, values in found.items()
        )
        print(
            f"{run.path.name} at iteration {iteration}, {kind} actions: {means}",
            flush=True,
        )
        for metric, values in found.items():
            yield measured_here(
                experiment="catching-return",
                env=run.config.task_name,
                agent=run.config.agent,
                teacher=run.config.teacher,
                schedule=run.config.schedule,
                settings={"start": run.config.start, "actions": kind},
                metric=metric,
                seeds=run.seeds(run.groups()[0]),
                values=values,
                iterations=iteration,
                command=command_line("benchmarks.catching_return"),
            )


def split_return(
    experiment: Experiment, state: RunState, throws: int, drawn: Bool[Array, ""]
) -> Split:
    """Returns the split of one lane's policy over throws of the target distribution."""
    env, agent = experiment.task, experiment.agent
    key_contexts, key_reset, key_act, key_step = jax.random.split(jax.random.key(0), 4)
    contexts = experiment.target_contexts(key_contexts, throws)
    start = jax.vmap(env.reset)(jax.random.split(key_reset, throws), contexts)
    keys_step = jax.random.split(key_step, throws)  # the task is deterministic

    def control_step(
        carry: tuple[object, Bool[Array, " throw"]], time: Array
    ) -> tuple[tuple[object, Bool[Array, " throw"]], Float[Array, "part throw"]]:
        env_states, ended = carry
        sample = agent.act(
            state.agent_state,
            env,
            jax.random.fold_in(key_act, time),
            env_states.observation,
        )
        mean = agent.deterministic_action(
            state.agent_state, env, env_states.observation
        )
        action = jnp.clip(
            jnp.where(drawn, sample, mean),
            jnp.asarray(env.action_lower)[None],
            jnp.asarray(env.action_upper)[None],
        )
        after = jax.vmap(env.step)(keys_step, env_states, action)
        squared = (action**2).sum(-1)
        discount = agent.discount ** time.astype(float)
        alive, cost = jnp.full(throws, ALIVE_REWARD), ACTION_COST * squared
        catch = after.reward - alive + cost
        steps = jnp.ones(throws)
        parts = [
            discount * alive,
            -discount * cost,
            discount * catch,
            after.success.astype(float),
            catch,
            squared,
            steps,
        ]
        return (after, ended | after.terminated | after.truncated), jnp.where(
            ended, 0.0, jnp.stack(parts)
        )

    _, parts = jax.lax.scan(
        control_step, (start, jnp.zeros(throws, bool)), jnp.arange(env.horizon)
    )
    alive, actions, catches, caught, reward, squared, steps = parts.sum(axis=(0, 2))
    return Split(
        alive=alive / throws,
        actions=actions / throws,
        catches=catches / throws,
        success_rate=caught / throws,
        reward_of_a_catch=reward / caught,
        mean_squared_action=squared / steps,
    )


if __name__ == "__main__":
    tyro.cli(main)
