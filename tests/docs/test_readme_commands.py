"""The README's training commands say what can be trained."""

import shlex

import pytest

from spjax.cli import main
from spjax.training import train as training
from tests.docs.running import ROOT, commands

README = commands((ROOT / "README.md").read_text())
TRAINED = [
    command for command in README if command.startswith(("spjax train", "spjax sweep"))
]
OWN = [command for command in TRAINED if "--use" in command]


def test_what_the_readme_says_of_own_parts_is_the_command_of_a_tutorial():
    (own,) = OWN
    tutorial = commands((ROOT / "docs" / "tutorials" / "own_task.md").read_text())[0]
    assert tutorial == f"{own} --out runs/pendulum"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [command for command in TRAINED if command not in OWN]
)
def test_the_command_is_understood(command, monkeypatch, tmp_path, capsys):
    def stop(config, folder, **how):
        raise training.Interrupted("understood")

    monkeypatch.setattr(training, "train", stop)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 130
    assert "understood" in capsys.readouterr().err
