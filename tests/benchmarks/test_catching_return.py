from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spjax
from benchmarks import catching_return
from benchmarks.catching_return import Split, split_return
from spjax.training.collect import Outcome

THROWS = 64


@pytest.mark.slow
def test_the_parts_add_up_to_the_return_of_the_same_throws_and_only_drawn_actions_of_a_fresh_policy_cost():
    experiment = jax.tree.map(
        lambda leaf: leaf[0], spjax.preset("ball-catching").experiments()
    )
    state = experiment.init(jax.random.key(1))
    contexts = experiment.target_contexts(
        jax.random.split(jax.random.key(0), 4)[0], THROWS
    )

    @jax.jit
    def both() -> tuple[Outcome, Split]:
        splits = jax.vmap(lambda drawn: split_return(experiment, state, THROWS, drawn))(
            jnp.array([True, False])
        )
        return experiment.play(state, jax.random.key(2), contexts)[0], splits

    played, splits = jax.tree.map(np.asarray, both())
    spread = played.discounted_return.std() / THROWS**0.5
    total = splits.alive + splits.actions + splits.catches
    assert total[0] == pytest.approx(
        played.discounted_return.mean(), abs=3 * float(spread)
    )
    # standard normal actions in five joints, hardly ever clipped, for about 85 control steps
    assert splits.mean_squared_action[0] == pytest.approx(5, rel=0.05)
    assert splits.actions[0] == pytest.approx(
        -0.005 * 5 * splits.alive[0] / 0.275, rel=0.05
    )
    assert abs(splits.actions[1]) < 0.02
    assert splits.success_rate[1] < 0.1
    assert splits.alive[1] == pytest.approx(20, abs=1.5)


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [((), "at least one run folder"), (("nowhere",), "no run folder nowhere")],
)
def test_what_cannot_be_played_is_one_sentence(runs, sentence, tmp_path):
    with pytest.raises(SystemExit, match=sentence):
        catching_return.main(
            tuple(Path(run) for run in runs), results=tmp_path / "split.json"
        )
    assert not (tmp_path / "split.json").exists()
