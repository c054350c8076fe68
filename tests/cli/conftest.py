"""A tiny run of two seeds, and a way to see what would be trained."""

from pathlib import Path

import pytest

from spjax.cli import main
from spjax.training import train as training
from spjax.training.config import RunConfig

TINY = [
    *(
        "--iterations",
        "2",
        "--evaluate-every",
        "1",
        "--evaluation-episodes",
        "3",
        "--quiet",
        "--no-plots",
    ),
    *(
        "--agent.num-envs",
        "2",
        "--agent.num-steps",
        "8",
        "--agent.num_minibatches=2",
        "--agent.num-epochs",
        "1",
    ),
    *("--agent.hidden", "4", "4"),
]
P3D = "point-mass-3d"


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert (
        main(
            [
                "train",
                P3D,
                "--teacher",
                "default",
                *TINY,
                "--seeds",
                "3,5",
                "--out",
                str(folder),
            ]
        )
        == 0
    )
    return folder


@pytest.fixture
def captured_config(monkeypatch, tmp_path):
    """Returns a function that runs a command without training, and returns the configuration and the folder."""
    monkeypatch.chdir(tmp_path)
    caught = []

    def catch(config, folder, **how):
        caught.append((config, folder, how))
        raise training.Interrupted("caught")

    def run(*args) -> tuple[RunConfig, Path, dict]:
        assert main([*args]) == 130
        return caught[-1]

    monkeypatch.setattr(training, "train", catch)
    return run
