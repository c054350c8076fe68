"""Runs commands of the documentation in fresh processes, as a reader would, but smaller."""

import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# several commands or blocks of Python in one process: JAX is imported once
SCRIPT = """
import shlex, sys
from spjax.cli import main
for text in sys.argv[1:]:
    if not text.startswith("spjax "):
        exec(text, {"__name__": "__main__"})
    elif code := main(shlex.split(text)[1:]):
        sys.exit(f"{text}: {code}")
"""

# the first checkpoint after an iteration is the last thing that this process does
KILLED = """
import os, signal
from spjax.runs.checkpoint import Checkpoints
save = Checkpoints.save
def save_and_die(self, iteration, state):
    save(self, iteration, state)
    if iteration == 1:
        os.kill(os.getpid(), signal.SIGKILL)
Checkpoints.save = save_and_die
"""


def commands(markdown: str) -> list[str]:
    """Returns the lines of all shell blocks, without comments."""
    blocks = re.findall(r"```sh\n(.*?)```", markdown, re.DOTALL)
    return [
        shlex.join(words)
        for block in blocks
        for line in block.splitlines()
        if (words := shlex.split(line, True))
    ]


def python_blocks(markdown: str) -> list[str]:
    """Returns all blocks of Python."""
    return re.findall(r"```python\n(.*?)```", markdown, re.DOTALL)


def run(folder: Path, *texts: str, before: str = "") -> subprocess.CompletedProcess:
    """Runs commands and Python in one fresh process whose working directory is like the repository's."""
    folder.mkdir(exist_ok=True)
    if not (folder / "docs").exists():
        (folder / "docs").symlink_to(ROOT / "docs")
    # as in tests/conftest.py: what takes a moment to compile is compiled once for all processes
    kept = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
    environment = {**os.environ, **kept, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", before + SCRIPT, *texts]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )


def run_well(folder: Path, *texts: str) -> str:
    """Runs them and returns what they printed; fails where a command does."""
    done = run(folder, *texts)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cpu_seconds() -> float:
    """Returns what all processes started so far have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
