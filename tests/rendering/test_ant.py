"""The film of an ant: the wall of each episode is where its gate leaves it, and the torso leaves a trail."""

import jax
import numpy as np
import pytest

from spjax.envs import ant_scene as scene
from spjax.envs.ant import Ant
from spjax.rendering.space import stage
from tests.rendering.conftest import film_of

GATES = ((-8.0, 3.0), (4.0, 11.0))


@pytest.mark.slow
def test_a_film_shows_each_episode_with_its_own_gate(monkeypatch):
    monkeypatch.setattr(Ant, "horizon", 20)
    film = film_of(Ant(engine="native"), 1.0, GATES, jax.random.key(5))
    shown = stage(film, (480, 320))
    assert shown.trail == shown.model.geom("torso").id
    for (position, width), motion in zip(GATES, shown.motions, strict=True):
        for name, edge, side in (
            ("wall_right", position - width / 2, 1),
            ("wall_left", position + width / 2, -1),
        ):
            geom = shown.model.geom(name).id
            middle = motion.positions[:, geom]
            np.testing.assert_allclose(middle[:, 0], scene.WALL_X)
            np.testing.assert_allclose(
                middle[:, 1] + side * scene.WALL_LENGTH / 2, edge, atol=1e-5
            )
    torso = shown.motions[0].positions[:, shown.trail]
    path = film.episodes[0].states.physics.qpos[:, :3]
    np.testing.assert_allclose(torso, path, atol=1e-5)
