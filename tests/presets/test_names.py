"""What is listed can be run."""

import spjax
from spjax.presets import preset_names


def test_every_listed_preset_can_be_run():
    names = preset_names()
    # eight curricula of three learners, four of which have a second start in ball catching; the episodic ones
    assert len(names) == 3 * 3 * 8 + 3 * 4 + 2 + 2 * 5
    for env, agent, teacher, schedule, start in names:
        config = spjax.preset(env, agent, teacher, schedule, start=start)
        config.check()
        assert start in (None, config.start)
