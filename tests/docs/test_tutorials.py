"""Every tutorial through train, kill, resume, evaluate, plot and render, each in a fresh process, by its own commands."""

import ast
import re
import signal

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.docs.running import KILLED, ROOT, commands, python_blocks, run, run_well

TUTORIALS = ROOT / "docs" / "tutorials"
NAMES = sorted(path.stem for path in TUTORIALS.glob("*.py"))
RUN = [
    "--iterations",
    "3",
    "--evaluate-every",
    "1",
    "--evaluation-episodes",
    "4",
    "--quiet",
    "--no-plots",
]
SLOTS = ["--agent.num-envs", "2", "--agent.num-steps", "110", "--agent.hidden", "4"]
SMALL = {  # agent -> flags
    "ppo": [*SLOTS, "--agent.num-minibatches", "2", "--agent.num-epochs", "1"],
    "a2c": SLOTS,
    "sprl": [],
}
MOVING = ["--teacher.warmup", "0", "--teacher.buffer-size", "32"]


def smaller(command: str) -> str:
    """Returns the training command with few and small iterations, in which a curriculum moves at once."""
    agent = re.search(r"--agent (\S+)", command)
    moving = "--teacher self-paced" in command
    return " ".join(
        [
            command,
            *RUN,
            *SMALL[agent[1] if agent else "ppo"],
            *(MOVING if moving else []),
        ]
    )


def columns(folder, part):
    """Returns the results as text, in which NaN equals NaN and every float has its own."""
    return {
        name: str(values)
        for name, values in pq.read_table(folder / part).to_pydict().items()
    }


def assert_same_bits(left, right):
    for part in ("metrics", "evaluation"):
        assert columns(left, part) == columns(right, part)
    with (
        np.load(left / "checkpoints" / "000003.npz") as one,
        np.load(right / "checkpoints" / "000003.npz") as other,
    ):
        assert one.files == other.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_tutorial_is_one_short_file_with_docstrings_shown_in_full_beside_it(name):
    code = (TUTORIALS / f"{name}.py").read_text()
    assert python_blocks((TUTORIALS / f"{name}.md").read_text())[0] == code
    assert len(code.splitlines()) < 60
    tree = ast.parse(code)
    documented = [
        node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]
    assert all(ast.get_docstring(node) for node in (tree, *documented))
    assert f"(tutorials/{name}.md)" in (ROOT / "docs" / "own-parts.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "own_picture"])
def test_the_tutorial_trains_survives_a_kill_and_is_evaluated_drawn_and_filmed(
    name, tmp_path
):
    text = (TUTORIALS / f"{name}.md").read_text()
    train, *shown = commands(text)
    folder = re.search(r"--out (\S+)", train)[1]
    whole, killed = f"{folder}-whole", tmp_path / folder

    small = smaller(train)
    assert run(tmp_path, small, before=KILLED).returncode == -signal.SIGKILL
    assert not (killed / "summary.json").exists()

    # what the page does not show is done all the same, in a process that has never seen the file
    shown.insert(0, f"spjax resume {folder} --quiet --no-plots")
    for command in (
        f"evaluate {folder}",
        f"plot {folder}",
        f"render {folder} --format html --out films",
    ):
        shown.append(f"spjax {command}")
    shown.append(small.replace(folder, whole))  # undisturbed
    run_well(tmp_path, *shown, *python_blocks(text)[1:])
    assert_same_bits(tmp_path / whole, killed)
    assert (killed / "pictures" / "learning_curve.png").is_file()
    assert list((tmp_path / "films").glob("*.html"))


@pytest.mark.slow
def test_the_picture_is_drawn_with_the_built_in_ones_and_alone(tmp_path):
    train, together, alone = commands((TUTORIALS / "own_picture.md").read_text())
    pictures = tmp_path / "runs" / "drawn" / "pictures"
    own = pictures / "training_and_target.png"
    run_well(tmp_path, smaller(train), together)
    assert own.is_file()
    assert (pictures / "learning_curve.png").is_file()
    for picture in pictures.iterdir():
        picture.unlink()
    run_well(tmp_path, alone)
    assert list(pictures.iterdir()) == [own]


@pytest.mark.slow
def test_the_index_lists_every_tutorial_and_its_commands_know_the_parts_of_the_files(
    tmp_path,
):
    index = (ROOT / "docs" / "own-parts.md").read_text()
    assert re.findall(r"\(tutorials/(\w+)\.md\)", index) == sorted(
        NAMES, key=index.index
    )
    listed, helped = commands(index)
    assert helped.endswith("--help")  # which ends the process
    words = run_well(tmp_path, listed).replace(",", " ").split()
    assert {"pendulum", "a2c", "point-mass-3d"} <= set(words)
    assert "--task.gravity" in run_well(tmp_path, helped)
