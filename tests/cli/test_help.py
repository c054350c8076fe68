"""Help is made once and kept for as long as it is right."""

import os
import time

import pytest

from spjax.cli import help as kept

ASKED = ("train", "point-mass-3d", "--help")


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Returns the times that help was made; it is kept in an empty folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    return []


def ask(made, *args, code=0):
    def make():
        made.append(args)
        print(f"help number {len(made)}")
        raise SystemExit(code)

    kept.show(args, make)


def test_help_is_made_once_wherever_it_is_asked_for(
    made, monkeypatch, tmp_path, capsys
):
    ask(made, *ASKED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m` does with the folder
    ask(made, *ASKED)
    assert capsys.readouterr().out == "help number 1\nhelp number 1\n"


def test_help_is_made_anew_for_other_arguments_and_another_width(
    made, monkeypatch, capsys
):
    ask(made, *ASKED)
    ask(made, "train", "point-mass-2d", "--help")
    monkeypatch.setenv("COLUMNS", "100")
    ask(made, *ASKED)
    assert capsys.readouterr().out == "help number 1\nhelp number 2\nhelp number 3\n"


def test_help_is_made_anew_when_a_part_of_the_users_own_has_changed(
    made, tmp_path, capsys
):
    file = tmp_path / "mine.py"
    for second in (1, 2):
        file.write_text("one = 1\n")
        os.utime(file, (later := time.time() + second, later))
        ask(made, *ASKED, "--use", str(file))
    assert capsys.readouterr().out == "help number 1\nhelp number 2\n"


def test_what_ended_in_an_error_is_shown_but_not_kept(made, capsys):
    with pytest.raises(SystemExit):
        ask(made, *ASKED, code=2)
    ask(made, *ASKED)
    assert capsys.readouterr().out == "help number 1\nhelp number 2\n"


def test_words_that_are_no_question_for_help():
    assert kept.asks_for_help(["train", "-h"])
    assert not kept.asks_for_help(["train", "--helpful"])
