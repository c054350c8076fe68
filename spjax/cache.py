"""Compiled programs are kept on disk, so that the same experiment starts at once the next time; so is what help prints."""

import os
import sys
from pathlib import Path


def keep_compiled_programs() -> None:
    """Turns on JAX's persistent compilation cache, in $JAX_COMPILATION_CACHE_DIR or the user's cache folder.

    Where there is no such folder, or it cannot be written, nothing is kept, which one line says.
    """
    import jax  # which the help of a command does without

    chosen = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    try:
        folder = Path(chosen) if chosen else user_cache() / "jax"
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"{folder} cannot be written")
    except (OSError, RuntimeError) as error:
        print(
            f"compiled programs are not kept for the next time: {error}",
            file=sys.stderr,
        )
        jax.config.update("jax_compilation_cache_dir", None)
    else:
        jax.config.update("jax_compilation_cache_dir", str(folder))


def user_cache() -> Path:
    """Returns our folder in the user's cache.

    Raises:
        RuntimeError: the user has no home, as in a container that runs under a number without a name.
    """
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "spjax"
