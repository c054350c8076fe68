"""What is listed can be run."""

import spjax
from spjax.presets import preset_names


def test_every_listed_preset_can_be_run():
    names = preset_names()
    assert len(names) == 3 * 3 * 7 + 3 * 4  # four curricula of ball catching have a second start
    for env, agent, teacher, schedule, start in names:
        config = spjax.preset(env, agent, teacher, schedule, start=start)
        config.check()
        assert start in (None, config.start)
