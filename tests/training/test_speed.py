"""The speed of a program is known once it ran here, whatever its seeds and traced settings."""

import dataclasses

import jax
import pytest

from spjax.training import speed
from spjax.training.program import Program
from tests.training.conftest import tiny

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture
def cache(tmp_path):
    """A folder of compiled programs for this test alone."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_speed_of_a_program_is_known_once_it_ran(cache, monkeypatch):
    program = Program.of(tiny(seeds=(1,)).experiments())
    assert speed.known_seconds(program, 2) is None
    speed.remember(program, 2, 0.0123456)
    faster = tiny(seeds=(5, 6), over={"agent.learning_rate": (1e-4,)})
    other = Program.of(faster.experiments())
    assert speed.known_seconds(other, 2) == 0.0123
    assert speed.known_seconds(program, 3) is None
    longer = program.of_others(
        dataclasses.replace(tiny().experiments(), evaluation_episodes=5)
    )
    assert speed.known_seconds(longer, 2) is None
    monkeypatch.setattr(speed, "_MOST", 2)
    for episodes in (6, 7):
        changed = dataclasses.replace(
            tiny().experiments(), evaluation_episodes=episodes
        )
        speed.remember(program.of_others(changed), 2, 1.0)
    assert speed.known_seconds(program, 2) is None  # the oldest


def test_a_damaged_file_or_none_at_all_is_nothing_to_speak_of(cache):
    program = Program.of(tiny(seeds=(1,)).experiments())
    (cache / "speeds.json").write_text("[")
    assert speed.known_seconds(program, 2) is None
    jax.config.update("jax_compilation_cache_dir", None)
    speed.remember(program, 2, 1.0)
    assert speed.known_seconds(program, 2) is None
