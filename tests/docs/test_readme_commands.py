"""The README's training commands say what can be trained."""

import shlex

import pytest

from spjax.cli import main
from spjax.training import train as training
from tests.docs.running import ROOT, commands

README = commands((ROOT / "README.md").read_text())
TRAINED = [command for command in README if command.startswith(("spjax train", "spjax sweep"))]


def test_the_readme_has_training_commands():
    assert len(TRAINED) >= 7


@pytest.mark.parametrize("command", TRAINED)
def test_the_command_is_understood(command, monkeypatch, tmp_path, capsys):
    def stop(config, folder, **how):
        raise training.Interrupted("understood")

    monkeypatch.setattr(training, "train", stop)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    assert main(shlex.split(command)[1:]) == 1
    assert "understood" in capsys.readouterr().err
