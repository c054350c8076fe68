"""A sweep small enough to train in seconds."""

import dataclasses

import pytest

import spjax
from spjax.agents.step_based import PPO
from spjax.self_paced.schedules import Proportion
from spjax.training.config import RunConfig

TINY = PPO(
    num_envs=4,
    num_steps=64,
    num_minibatches=4,
    num_epochs=1,
    hidden=(8,),
    bootstrap_time_limit=False,
    learning_rate=1e-3,
)


def tiny(**changes) -> RunConfig:
    """Returns the self-paced point mass with a tiny learner; the teacher starts at once."""
    config = spjax.preset("point-mass-2d")
    config = dataclasses.replace(
        config,
        agent=TINY,
        teacher=dataclasses.replace(
            config.teacher, buffer_size=32, warmup=0, schedule=Proportion(offset=1)
        ),
        seeds=(1, 2, 3),
        num_iterations=6,
        evaluate_every=2,
        evaluation_episodes=4,
    )
    return dataclasses.replace(config, **changes)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The run folder of the tiny sweep."""
    return spjax.train(
        tiny(), tmp_path_factory.mktemp("runs") / "finished", progress=False
    )
