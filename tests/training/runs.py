"""Whole runs for tests: resumed from the middle, or a lane alone."""

import dataclasses
import shutil

import jax
import numpy as np

import spjax
from spjax.training.program import Program
from spjax.training.train import restore


def leaves(folder):
    """Returns the leaves of a run's newest state, on the host."""
    _, program, states = restore(folder)
    return jax.tree.leaves(program.to_host(states))


def trained_and_resumed(config, tmp_path):
    """Trains four iterations, twice from the middle; returns the leaves of the final state, which must be equal."""
    whole = spjax.train(config, tmp_path / "whole", progress=False)
    undisturbed = leaves(whole)
    assert not any(
        np.isnan(leaf).any() for leaf in undisturbed if leaf.dtype.kind == "f"
    )
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    (cut / "summary.json").unlink()
    (cut / "checkpoints" / "000004.npz").unlink()
    for a, b in zip(
        undisturbed, leaves(spjax.resume(cut, progress=False)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    return undisturbed


def check_lanes_and_resume(config, tmp_path):
    """Asserts that a resumed run is the undisturbed one, and the second of its two lanes the single run, seed 2."""
    for a, b in zip(
        trained_and_resumed(config, tmp_path), single_lane(config, 2), strict=True
    ):
        np.testing.assert_array_equal(a[1], b[0])


def single_lane(config, seed):
    """Returns the leaves of the state after four iterations of one seed alone."""
    single = Program.of(dataclasses.replace(config, seeds=(seed,)).experiments())
    chunk, _ = single.compile(config.evaluate_every)
    states = single.init([seed])
    for _ in range(2):
        states, _, _ = chunk(states, 2)
    return jax.tree.leaves(single.to_host(states))
