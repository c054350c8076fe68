"""The picture of the inference view: steps in turn end where their path does, and everything is drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import inference_path
from spjax.contexts import Gaussian


@pytest.mark.slow
def test_e_and_m_steps_in_turn_end_at_the_tilted_target_of_equation_29(monkeypatch):
    monkeypatch.setattr(inference_path, "STEPS", 60)
    curvature, best = 0.3, np.array([1.0, 0.0])
    mean, std = np.array([-1.0, 0.5]), np.array([0.6, 0.7])
    with jax.enable_x64(True):
        axes = np.linspace(-4.0, 4.0, 41)
        grid = jnp.asarray(np.stack(np.meshgrid(axes, axes), -1).reshape(-1, 2))
        values = -0.5 * curvature * ((grid - best[None]) ** 2).sum(axis=1)
        log_initial, log_target = (
            inference_path.on_grid(Gaussian.from_std(*one), grid)
            for one in (([0.5, -1.0], [0.8, 0.8]), (mean, std))
        )
        steps = inference_path.in_turn(grid, values, log_initial, log_target)
    tilt = curvature / inference_path.ALPHA
    expected = (mean / std**2 + tilt * best) / (1 / std**2 + tilt)
    np.testing.assert_allclose(steps[0], [0.5, -1.0], atol=1e-3)
    np.testing.assert_allclose(steps[-1], expected, atol=1e-4)
    distances = np.linalg.norm(steps - expected, axis=1)
    assert (np.diff(distances[:5]) < 0).all()


def test_the_picture_has_an_ellipse_and_a_density_for_each_alpha():
    alphas, line = len(inference_path.ALPHAS), np.zeros((2, 5))
    positions, half_widths = np.linspace(-5, 5, 7), np.linspace(0.1, 0.5, 4)
    drawn = inference_path.Drawn(
        positions, half_widths, np.zeros((7, 4)), [positions**2] * alphas,
        [line] * alphas, np.zeros((3, 2)), np.zeros((4, 2)), np.array([1.0, 0.3]),
    )  # fmt: skip
    above, below = inference_path.path_figure(drawn).axes[:2]
    assert len(above.lines) == alphas + 3
    assert above.lines[-1].get_xdata() == [1.0]
    assert len(below.lines) == alphas
