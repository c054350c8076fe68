"""The README's Python runs as it stands, on a smaller job."""

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from spjax import catalogue, settings
from spjax.agents.step_based import PPO
from spjax.cli import main
from spjax.self_paced.schedules import Bound
from spjax.teachers.self_paced import SelfPaced
from spjax.training import train as training

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.slow
def test_the_sweep_of_the_python_example_trains_and_draws(blocks, tmp_path):
    code = blocks[0]
    assert len(code.strip().splitlines()) < 15
    smaller = "dataclasses.replace(config, num_iterations=2, evaluate_every=2, agent=TINY, evaluation_episodes=4, "
    code = code.replace("dataclasses.replace(config, ", smaller).replace(
        "range(1, 21)", "range(1, 3)"
    )
    code = code.replace("runs/bound", str(tmp_path / "run"))
    exec(f"from tests.training.conftest import TINY\n{code}", {})
    rows = pq.read_table(tmp_path / "run" / "evaluation").to_pydict()
    assert sorted(set(rows["teacher.schedule.performance_bound"])) == [2.5, 3.5]
    assert len(rows["seed"]) == 2 * 2 * 2
    assert len(list((tmp_path / "run" / "pictures").glob("*.png"))) > 3


@pytest.mark.slow
def test_the_context_update_of_the_example_has_a_gradient_of_the_right_value(
    blocks, capsys
):
    scope = {}
    exec(blocks[1], scope)
    value, gradient = scope["jax"].value_and_grad(scope["target_mass"])(0.01)
    step = 3e-4
    difference = (
        scope["target_mass"](0.01 + step) - scope["target_mass"](0.01 - step)
    ) / (2 * step)
    assert np.isfinite(value)
    assert float(gradient) == pytest.approx(float(difference), rel=0.02)
    assert gradient > 0  # the more the target counts, the more likely its mean becomes


COMMANDS = re.findall(r"^spjax (?:train|sweep) [^#\n]*", README, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_starts_what_it_says(
    command, tmp_path, monkeypatch
):
    started = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(Path(__file__).parents[1] / "docs")
    monkeypatch.setattr(
        training,
        "train",
        lambda config, folder, **how: started.append(config) or folder,
    )
    monkeypatch.setattr("spjax.cli.training.report", lambda folder, plots: None)
    assert main(shlex.split(command)[1:]) == 0
    (config,) = started
    assert config.task.name in (command.split()[2], "policy-search")


def test_every_setting_that_the_readme_names_is_a_flag():
    named = set(re.findall(r"`--((?:task|agent|teacher)\.[a-z.-]+)", README))
    assert len(named) > 5
    parts = [
        catalogue.make(kind, name)
        for kind, name in (
            ("task", "point-mass-3d"),
            ("task", "ball-catching"),
            ("task", "ball-in-a-cup"),
            ("task", "ant"),
        )
    ]
    parts += [PPO(), SelfPaced().bound_to(parts[0]), SelfPaced(schedule=Bound())]
    known = {
        f"{part.kind}.{name}".replace("_", "-")
        for part in parts
        for name in settings.every(part)
    }
    assert named <= known


def test_every_picture_that_the_readme_shows_is_committed():
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert shown
    for path in shown:
        assert (Path(__file__).parents[1] / path).is_file(), path
