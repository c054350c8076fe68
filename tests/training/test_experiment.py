"""One iteration and what it counts; targets and evaluation are each lane's own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest

import spjax
from spjax import catalogue
from spjax.contexts import Gaussian
from spjax.episodes import Episodes
from spjax.training.experiment import _metrics
from spjax.training.program import Program
from spjax.training.run_folder import read_config
from tests.training.conftest import tiny

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_the_clipped_fraction_counts_the_episodes_whose_context_lies_on_a_bound():
    space = tiny().task.context_space  # [-4, 4] x [0.5, 8]
    rows = [
        (True, (4.0, 1.0)),
        (True, (0.0, 0.5)),
        (True, (0.0, 1.0)),
        (True, (-4.0, 8.0)),
        (False, (-4.0, 8.0)),
    ]
    mask, contexts = (jnp.asarray(column) for column in zip(*rows, strict=True))
    zeros = jnp.zeros(5)
    episodes = Episodes(
        mask, contexts, jnp.zeros((5, 1)), zeros, zeros, zeros.astype(int), mask, ()
    )
    found = _metrics(episodes, space, None, None, None).clipped_fraction
    assert (float(found.value), bool(found.present)) == (0.75, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outside", "std", "clipped"), [("clip", 1e6, 1.0), ("redraw", 2.0, 0.0)]
)
def test_every_run_says_how_many_contexts_were_clipped(outside, std, clipped, tmp_path):
    wide = Gaussian.from_std((0.0, 4.0), (2.0, std), outside=outside)
    config = tiny(
        teacher=catalogue.make("teacher", "default", target=wide),
        seeds=(1,),
        num_iterations=4,
    )
    folder = spjax.train(config, tmp_path / "run", progress=False)
    fractions = pq.read_table(folder / "metrics")["clipped_fraction"].to_pylist()
    assert {fraction for fraction in fractions if fraction is not None} == {
        clipped
    }  # none where no episode ended


@pytest.mark.slow
def test_each_lane_of_a_sweep_over_targets_is_evaluated_on_its_own(tmp_path):
    targets = ((2.5, 0.5), (0.0, 8.0))
    default = catalogue.make("teacher", "default")
    config = tiny(
        teacher=default,
        seeds=(1,),
        num_iterations=2,
        over={"teacher.target.mean": targets},
    )
    folder = spjax.train(config, tmp_path / "run", progress=False)
    rows = pq.read_table(folder / "evaluation").to_pydict()
    by_target = [
        [
            value
            for value, lane in zip(rows["discounted_return"], rows["lane"], strict=True)
            if lane == number
        ]
        for number in (0, 1)
    ]
    for number, mean in enumerate(targets):
        contexts = np.concatenate(
            [
                row
                for row, lane in zip(rows["contexts"], rows["lane"], strict=True)
                if lane == number
            ]
        ).reshape(-1, 2)
        np.testing.assert_allclose(contexts, [mean] * len(contexts), atol=0.03)
        own = dataclasses.replace(
            default, target=Gaussian.from_std(mean, (0.004, 0.00375))
        )
        alone = Program.of(tiny(teacher=own, seeds=(1,)).experiments())
        _, _, snapshot = alone.compile(2)[0](alone.init([1]), 0)
        assert by_target[number][0] == float(snapshot.evaluation.discounted_return[0])
    assert by_target[0] != by_target[1]


@pytest.mark.slow
def test_a_correlated_target_is_kept_and_drawn_from_with_its_correlation(tmp_path):
    covariance = [[0.25, 0.2], [0.2, 0.25]]
    target = Gaussian.from_covariance(np.array([0.0, 4.0]), np.array(covariance))
    config = tiny(
        teacher=catalogue.make("teacher", "default", target=target),
        num_iterations=2,
        seeds=(1,),
    )
    folder = spjax.train(config, tmp_path / "run", progress=False)
    again = read_config(folder)
    np.testing.assert_allclose(again.teacher.target.covariance, covariance, rtol=1e-6)
    experiment = again.experiment(again.lanes()[0])
    drawn = experiment.target_contexts(jax.random.key(5), 4000)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.02)


def test_an_episodic_covariance_is_trained_and_evaluated_in_full(tmp_path):
    covariance = [[0.25, 0.01], [0.01, 0.0009]]
    gaussian = Gaussian.from_covariance(np.array([2.0, 0.3]), np.array(covariance))
    config = spjax.preset("gate-global", "sprl")
    config = dataclasses.replace(
        config,
        agent=dataclasses.replace(config.agent, num_samples=20, buffer_size=3),
        teacher=dataclasses.replace(config.teacher, initial=gaussian, target=gaussian),
    )
    again = type(config).built(config.spelled())
    experiment = jax.tree.map(jnp.asarray, again.experiment(again.lanes()[0]))
    state = experiment.init(jax.random.key(2))
    np.testing.assert_allclose(
        state.teacher_state.distribution.covariance, covariance, rtol=1e-5
    )
    for drawn in (
        experiment.sample_contexts(state, jax.random.key(3), 4000),
        experiment.target_contexts(jax.random.key(4), 4000),
    ):
        np.testing.assert_allclose(np.corrcoef(drawn.T)[0, 1], 2 / 3, atol=0.03)
