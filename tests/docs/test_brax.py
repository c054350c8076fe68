"""The blocks of docs/brax.md up to the trainings that they start, whose programs are traced in place of being run."""

import inspect
import runpy

import jax
import jax.numpy as jnp
import pytest
from brax.training.agents.ppo import train as ppo

import spjax
from spjax.promotion import lenient
from tests.docs.running import ROOT, python_blocks

TEACHER, TASK = python_blocks((ROOT / "docs" / "brax.md").read_text())


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs a block as a file of its own."""

    def as_file(block):
        path = tmp_path / "block.py"
        path.write_text(block)
        return runpy.run_path(str(path))

    return as_file


def test_the_teacher_is_in_the_program_of_braxs_learner(run, monkeypatch, capsys):
    signature, steps = inspect.signature(ppo.train), []

    def traced(**given):
        assert not signature.bind(**given).kwargs.keys() - signature.parameters.keys()
        rows = given["batch_size"] * given["num_minibatches"]
        assert rows % given["num_envs"] == 0  # as Brax asserts
        assert given["discounting"] == 0.95
        for name in ("environment", "eval_env"):
            wrapped = given["wrap_env_fn"](
                given[name], episode_length=given["episode_length"]
            )
            keys = jax.random.split(jax.random.PRNGKey(0), given["num_envs"])
            with lenient():
                state = jax.eval_shape(wrapped.reset, keys)
                action = jax.ShapeDtypeStruct((len(keys), 2), jnp.float32)
                steps.append(jax.eval_shape(wrapped.step, state, action))
        return (
            None,
            None,
            {"eval/episode_discounted_return": 1.5, "eval/episode_success": 0.5},
        )

    monkeypatch.setattr(ppo, "train", traced)
    run(TEACHER)
    assert capsys.readouterr().out == "1.5 0.5\n"
    training, evaluation = steps
    assert training.info["teacher"].teacher_state.distribution.mean.shape == (2,)
    assert evaluation.info["teacher"].teacher_state is None
    assert training.metrics.keys() == {"success", "discounted_return"}


@pytest.mark.slow
def test_the_environment_of_brax_is_a_task_of_a_training(run, monkeypatch):
    started = []

    def traced(config, folder):
        config.check()
        started.append(folder)
        experiment = jax.tree.map(lambda leaf: leaf[0], config.experiments())
        jax.eval_shape(lambda e: e.learn(e.init(jax.random.key(0))), experiment)

    monkeypatch.setattr(spjax, "train", traced)
    task = run(TASK)["config"].task
    assert started == ["runs/cart-pole"]
    assert task.observation_size == 5
    system = task.system(task._made.env.sys, jnp.asarray([4.0]))
    assert [float(system.gravity[2]), float(system.opt.gravity[2])] == [-4.0, -4.0]
