"""Compiled programs are kept on disk, so that the same experiment starts at once the next time."""

import os
from pathlib import Path

import jax


def keep_compiled_programs() -> None:
    """Turns on JAX's persistent compilation cache, in $JAX_COMPILATION_CACHE_DIR or the user's cache folder.

    A folder that cannot be written turns it off.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    chosen = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    folder = Path(chosen or home / "spjax" / "jax")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    jax.config.update("jax_compilation_cache_dir", str(folder) if writable else None)
