"""The help of a command is kept, so that it is there at once the second time: making it needs all that the flags stand for."""

import contextlib
import hashlib
import io
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import spjax
from spjax.cache import user_cache
from spjax.cli.own import uses_of
from spjax.runs.files import write_atomically

_PACKAGE = Path(spjax.__file__).parent


def asks_for_help(args: Sequence[str]) -> bool:
    """Says whether the arguments of a command ask for its help."""
    return bool({"-h", "--help"} & set(args))


def show(args: Sequence[str], run: Callable[[], None]) -> None:
    """Prints the help that the command prints, from the last time if nothing has changed since."""
    file = _file(args)
    if file is not None and file.is_file():
        print(file.read_text(encoding="utf-8"), end="")
        return
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            run()
    except SystemExit as done:
        if done.code:
            raise
        with contextlib.suppress(OSError):
            if file is not None:
                write_atomically(
                    file,
                    lambda path: path.write_text(printed.getvalue(), encoding="utf-8"),
                )
    finally:
        print(printed.getvalue(), end="")


def _file(args: Sequence[str]) -> Path | None:
    """Returns where the help of these arguments is kept, None where the user has no home."""
    try:
        return user_cache() / "help" / f"{_fingerprint(args)}.txt"
    except (OSError, RuntimeError):
        return None


def _fingerprint(args: Sequence[str]) -> str:
    """Returns what the help depends on: the arguments, the width, the code of the package and of the user's own parts."""
    sources = [*_PACKAGE.rglob("*.py"), *(_PACKAGE / "envs").resolve().rglob("*.py")]
    own = [Path(where) for where in uses_of(args) if Path(where).is_file()]
    changed = [file.stat().st_mtime_ns for file in (*sources, *own)]
    packages = (Path(folder) for folder in sys.path if folder.endswith("-packages"))
    installed = [folder.stat().st_mtime_ns for folder in packages if folder.is_dir()]
    width = shutil.get_terminal_size().columns
    facts = (
        spjax.__version__,
        *args,
        width,
        len(changed),
        max(changed),
        *map(str, own),
        *installed,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
