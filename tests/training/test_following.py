"""Callbacks: what they are told, that they can stop a run, and that nobody listening changes nothing."""

import dataclasses

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest

import spjax
from spjax.self_paced.schedules import Proportion
from spjax.training import progress
from spjax.training.following import Followers
from spjax.training.train import restore
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.mark.slow
def test_a_callback_follows_the_run_stops_it_and_the_resumed_run_has_the_same_bits(
    finished, tmp_path
):
    folder, told, kept = tmp_path / "run", [], []

    def follow(report):
        assert report.folder == folder
        rows = dict(report.rows(lane=1))
        told.append((report.iteration, sorted(rows), report.last))
        if report.iteration == 4:
            kept.append((report, report.agent_states(), report.teacher_states(), rows))
            report.stop()

    assert spjax.train(tiny(), folder, progress=False, callback=follow) == folder
    assert told == [(2, [1, 2], False), (4, [3, 4], False)]
    assert not (folder / "summary.json").exists()

    report, agents, teachers, rows = kept[0]
    _, program, states = restore(folder)
    assert program.iteration(states) == 4
    host = program.to_host(states)
    for found, saved in ((agents, host.agent_state), (teachers, host.teacher_state)):
        for one, other in zip(
            jax.tree.leaves(found), jax.tree.leaves(saved), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match=r"during the callback only; copy what you"):
        report.agent_states()

    metrics = pq.read_table(folder / "metrics").to_pylist()
    recorded = {row["iteration"]: row for row in metrics if row["lane"] == 1}
    for iteration, row in rows.items():
        assert row["environment_steps"] == 256 * iteration
        assert row["agent.value_loss"] == pytest.approx(
            recorded[iteration]["agent.value_loss"]
        )
        assert "teacher.context_mean" not in row  # no single number
        assert ("evaluation.discounted_return" in row) == (iteration == 4)

    later = []
    spjax.resume(
        folder,
        progress=False,
        callback=[lambda report: later.append(report.iteration), follow],
    )
    assert later == [6]
    assert told[2:] == [(6, [5, 6], True)]
    assert_same_run(finished, folder)


def test_what_cannot_be_called_is_one_sentence():
    for wrong in (3, [print, "tensorboard"]):
        with pytest.raises(ValueError, match="callback needs a function of a report"):
            Followers.of(wrong)
    assert Followers.of(print).callbacks == (print,)
    assert Followers.of(None).callbacks == ()


@pytest.mark.slow
def test_a_callback_that_fails_leaves_a_run_that_can_go_on(finished, tmp_path):
    def fail(report):
        raise RuntimeError("mine")

    folder = tmp_path / "run"
    with pytest.raises(RuntimeError, match="mine"):
        spjax.train(tiny(), folder, progress=False, callback=fail)
    spjax.resume(folder, progress=False)
    assert_same_run(finished, folder)


@pytest.mark.slow
def test_a_standstill_is_said_while_the_run_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Proportion, "still", lambda *evidence: "alpha stays 0")
    spjax.train(tiny(num_iterations=4), tmp_path / "run")
    assert capsys.readouterr().out.splitlines().count("alpha stays 0") == 1


def returns(*values, present=True):
    """Returns the mean returns of the lanes, and whether there were any."""
    return np.asarray(values, float), np.full(len(values), present)


def test_a_curriculum_that_negative_returns_hold_is_named_once_k_alpha_is_over():
    config = tiny()  # warm-up 0, K_alpha 1
    teachers = [config.experiment(lane).teacher for lane in config.lanes()]
    why = "alpha stays 0: the mean return is negative"
    said = progress.standstill
    assert said(teachers, 2, *returns(-1, -2, -3)) == why
    assert said(teachers, 1, *returns(-1, -2, -3)) is None
    assert said(teachers, 2, *returns(-1, 2, -3)) is None
    assert said(teachers, 2, *returns(-1, -2, -3, present=False)) is None
    schedule = dataclasses.replace(config.teacher.schedule, negative_return="absolute")
    absolute = [dataclasses.replace(one, schedule=schedule) for one in teachers]
    assert said(absolute, 2, *returns(-1, -2, -3)) is None
    delayed = [dataclasses.replace(one, warmup=1) for one in teachers]
    assert said(delayed, 2, *returns(-1, -2, -3)) is None
    assert said(delayed, 3, *returns(-1, -2, -3)) == why
