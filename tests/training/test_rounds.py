"""Sweeps in blocks: the bits, the tables and the folder are those of a sweep at once, whatever stops it."""

import pytest

import spjax
from spjax.runs.checkpoint import Checkpoints
from spjax.training import rounds
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run

pytestmark = pytest.mark.usefixtures("compiled_once")


def saved(folder):
    """Returns the files of states, by their paths."""
    files = (folder / "checkpoints").rglob("*.npz")
    return sorted(str(file.relative_to(folder / "checkpoints")) for file in files)


class Killed(BaseException):
    """As abrupt as it gets inside a process: nothing that the program catches."""


def killed_while_saving(monkeypatch, number):
    """Lets the process die when it is about to save its so many-th block."""
    save, calls = Checkpoints.save_block, []

    def dying(self, iteration, lanes, arrays):
        calls.append(iteration)
        if len(calls) == number:
            raise Killed
        save(self, iteration, lanes, arrays)

    monkeypatch.setattr(Checkpoints, "save_block", dying)


@pytest.mark.slow
def test_a_sweep_in_blocks_killed_in_the_middle_of_one_has_the_bits_of_a_sweep_at_once(
    finished, tmp_path, monkeypatch
):
    folder = tmp_path / "blocks"
    killed_while_saving(monkeypatch, 4)  # of two blocks an iteration
    with pytest.raises(Killed):
        spjax.train(tiny(), folder, progress=False, lanes_at_once=2)
    monkeypatch.undo()
    assert saved(folder) == [
        "000000/000000.npz",
        "000000/000002.npz",
        "000002/000000.npz",
    ]
    assert not list(folder.glob("metrics/*"))  # no half of a chunk in the tables

    killed_while_saving(monkeypatch, 3)
    with pytest.raises(Killed):
        spjax.resume(folder, progress=False, lanes_at_once=1)
    monkeypatch.undo()
    assert saved(folder)[-2:] == ["000002/000002.npz", "000004/000000.npz"]
    spjax.resume(folder, progress=False, lanes_at_once=2)
    assert_same_run(finished, folder)
    assert {file.name for file in folder.iterdir()} == {
        file.name for file in finished.iterdir()
    }


@pytest.mark.slow
def test_a_sweep_that_began_at_once_goes_on_in_blocks_and_past_its_end(
    finished, tmp_path
):
    folder = tmp_path / "run"
    spjax.train(tiny(num_iterations=2), folder, progress=False)
    spjax.resume(folder, progress=False, iterations=6, lanes_at_once=2)
    assert_same_run(finished, folder)
    assert saved(folder)[0] == "000004/000000.npz"


@pytest.mark.slow
def test_a_damaged_block_costs_that_block_alone_and_is_named(
    finished, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "run"
    spjax.train(tiny(), folder, progress=False, lanes_at_once=2)
    (folder / "summary.json").unlink()
    damaged = folder / "checkpoints" / "000006" / "000000.npz"
    damaged.write_bytes(b"")
    blocks = []
    through = rounds.Rounds._through

    def noted(self, block, *arguments):
        blocks.append(block)
        return through(self, block, *arguments)

    monkeypatch.setattr(rounds.Rounds, "_through", noted)
    spjax.resume(folder, lanes_at_once=2)
    assert blocks == [(0, 1)]
    said = capsys.readouterr().out
    assert f"checkpoint {damaged} cannot be read: " in said
    assert "; the run goes on from iteration 4\n" in said
    assert_same_run(finished, folder)


@pytest.mark.slow
def test_memory_that_runs_out_makes_the_blocks_smaller_and_loses_nothing(
    finished, tmp_path, monkeypatch, capsys
):
    through = rounds.Rounds._through

    def lacking(self, block, *arguments):
        if len(block) > 1 and self.iteration == 2:
            raise MemoryError
        return through(self, block, *arguments)

    monkeypatch.setattr(rounds.Rounds, "_through", lacking)
    spjax.train(tiny(), tmp_path / "run")
    assert (
        "memory ran out with 3 runs at once; going on with 1" in capsys.readouterr().out
    )
    assert_same_run(finished, tmp_path / "run")
