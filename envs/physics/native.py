"""The engine for CPU: C MuJoCo on all cores, behind one callback for each control step of a whole batch.

State rows go in and come out, so it is a pure function like any other. A callback must wait for no thread of XLA's pool, since
callbacks of all lanes may hold every one of them: it touches NumPy and MuJoCo only, and takes its rows in small pieces.
"""

import contextlib
import ctypes
import dataclasses
import math
import threading
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import mujoco
import mujoco.batch
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.cores import share_of_cores
from spjax.envs.physics.base import LIMIT, Advanced, Physics
from spjax.envs.physics.scene import CompiledScene

_CORE = ("qpos", "qvel", "act", "qacc_warmstart")
_CORE_BITS = int(
    mujoco.mjtState.mjSTATE_QPOS
    | mujoco.mjtState.mjSTATE_QVEL
    | mujoco.mjtState.mjSTATE_ACT
    | mujoco.mjtState.mjSTATE_WARMSTART
)
_WORTH_A_THREAD = 8  # instances; waking a thread for fewer takes longer than they do
_PIECE = (
    2**16
)  # bytes; from 100 KiB on, JAX has the pool copy an argument and the callback waits for that


@dataclasses.dataclass(frozen=True, eq=False)
class Native(Physics):
    """A scene that C MuJoCo runs."""

    pool: "Pool" = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        _silence_warnings()
        object.__setattr__(self, "pool", Pool(self.compiled))

    def _advance(
        self,
        core: Float[Array, " core"],
        control: Float[Array, " nu"],
        fields: tuple[Float[Array, "object width"], ...],
        ended: Bool[Array, ""],
    ) -> Advanced:
        flags = ended.astype(core.dtype)[None]
        row = jnp.concatenate(
            [core, control, *(value.reshape(-1) for value in fields), flags]
        )
        out_row = self._advance_rows(row[None])[0]
        after, contacts, failed = jnp.split(out_row, [core.size, out_row.size - 1])
        return after, contacts > 0, failed[0] > 0

    def _advance_rows(
        self, rows: Float[Array, "instance row"]
    ) -> Float[Array, "instance out"]:
        """Returns what `Pool.advance` does, in one callback whatever number of vmaps is around it."""

        @jax.custom_batching.custom_vmap
        def called(rows: Array) -> Array:
            count, width = rows.shape
            height = max(1, _PIECE // (width * rows.dtype.itemsize))
            out = jax.ShapeDtypeStruct((count, self.pool.out_size), rows.dtype)
            return jax.pure_callback(
                self.pool.advance,
                out,
                *jnp.split(rows, np.arange(height, count, height)),
            )

        @called.def_vmap
        def together(
            axis_size: int, in_batched: list[bool], rows: Array
        ) -> tuple[Array, bool]:
            flat = self._advance_rows(rows.reshape(-1, rows.shape[-1]))
            return flat.reshape(*rows.shape[:-1], -1), True

        return called(rows)


class Pool:
    """Batches of simulations, lent to one thread at a time.

    A batch must not be used by two threads at once, and the runtime's threads come and go: they take a batch from here and
    give it back.
    """

    def __init__(self, compiled: CompiledScene) -> None:
        self._compiled = compiled
        self._lock = threading.Lock()
        self._idle: dict[
            tuple[int, int], list[Simulations]
        ] = {}  # by instances and threads

    @property
    def out_size(self) -> int:
        """Numbers that `advance` returns of an instance."""
        model = self._compiled.model
        return (
            mujoco.mj_stateSize(model, _CORE_BITS)
            + len(self._compiled.scene.contacts)
            + 1
        )

    def advance(self, *pieces: PyTree) -> Float[np.ndarray, "instance out"]:
        """Returns (core, contacts, failed) for pieces [instance, row] of the rows (core, control, fields, ended)."""
        rows = np.concatenate([np.asarray(piece) for piece in pieces])
        with self._lent(len(rows)) as simulations:
            return simulations.advance(rows)

    @contextlib.contextmanager
    def _lent(self, count: int) -> "Iterator[Simulations]":
        with self._lock:
            threads = max(1, min(share_of_cores(), count // _WORTH_A_THREAD))
            idle = self._idle.setdefault((count, threads), [])
            simulations = idle.pop() if idle else None
        if simulations is None:
            simulations = Simulations(self._compiled, count, threads)
        yield simulations
        with self._lock:  # not after an exception: then it is in no known state
            idle.append(simulations)


class Simulations:
    """A fixed number of instances in C MuJoCo."""

    def __init__(self, compiled: CompiledScene, count: int, num_threads: int) -> None:
        model, steps = compiled.model, compiled.scene.substeps
        self._compiled = compiled
        self._batch = mujoco.batch.Batch(model, count, num_threads)
        self._inputs: list[tuple[np.ndarray, PyTree]] = [
            (self._batch.bind(name), ...) for name in (*_CORE, "ctrl")
        ]
        for name, rows, is_state, _ in compiled.split_fields(compiled.rows):
            self._inputs.append(
                (self._batch.bind(name) if is_state else self._batch.expand(name), rows)
            )
        self._cores = np.empty((count, steps, mujoco.mj_stateSize(model, _CORE_BITS)))
        self._sensors = np.empty((count, steps, model.nsensordata))

    def advance(
        self, rows: Float[np.ndarray, "instance row"]
    ) -> Float[np.ndarray, "instance out"]:
        """Returns (core, contacts, failed) one control step later; the old core where `ended` or failed."""
        size = self._cores.shape[-1]
        out = np.zeros(
            (len(rows), size + len(self._compiled.scene.contacts) + 1), rows.dtype
        )
        out[:, :size] = rows[:, :size]
        going = rows[:, -1] == 0
        sound = np.isfinite(rows).all(axis=1)
        out[:, -1] = going & ~sound
        ids = np.flatnonzero(going & sound)
        if ids.size:
            self._load(rows)
            core, contacts, failed = self._run(ids)
            out[ids[~failed], :size] = core[~failed]
            out[ids, size:-1] = contacts
            out[ids, -1] = failed
        return out

    def _load(self, rows: Float[np.ndarray, "instance row"]) -> None:
        start = 0
        for array, which in self._inputs:
            shape = array[0, which].shape
            end = start + math.prod(shape)
            array[:, which] = rows[:, start:end].reshape(len(rows), *shape)
            start = end
        self._batch.bind("time")[:] = 0
        self._batch.warning[:] = 0

    def _run(
        self, ids: Int[np.ndarray, " some"]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns core, contacts and failure of some instances after a control step."""
        all_of_them = ids.size == len(self._cores)
        cores, sensors = self._cores[: ids.size], self._sensors[: ids.size]
        record = {_CORE_BITS: cores, "sensordata": sensors}
        stopped = np.zeros(len(self._cores), bool)
        try:
            self._batch.rollout(
                cores.shape[1],
                record=tuple(record),
                ids=None if all_of_them else ids,
                out=record,
            )
        except mujoco.batch.SimulationError as error:
            stopped[error.ids] = True
        core = cores[:, -1].copy()
        contacts = np.zeros((ids.size, self._compiled.groups.shape[1]), bool)
        found = sensors[..., self._compiled.columns] > 0  # instance, substep, pair
        hits, first = _first_hits(found)
        core[hits] = cores[hits, first]
        contacts[hits] = found[hits, first] @ self._compiled.groups
        failed = (
            stopped[ids]
            | self._batch.warning[ids, :, 1].any(axis=1)
            | ~(np.abs(core) < LIMIT).all(axis=1)
        )
        return core, contacts, failed


def _first_hits(
    found: Bool[np.ndarray, "instance substep pair"],
) -> tuple[Int[np.ndarray, " hit"], Int[np.ndarray, " hit"]]:
    """Returns which instances have a contact in any substep, and the first of these substeps."""
    substeps: Bool[np.ndarray, "instance substep"] = np.any(found, axis=2)
    hits = np.flatnonzero(np.any(substeps, axis=1))
    return hits, substeps[hits].argmax(axis=1)


@ctypes.CFUNCTYPE(None, ctypes.c_char_p)
def _ignore(text: bytes) -> None:
    """Takes MuJoCo's warnings in place of the terminal and MUJOCO_LOG.TXT; the state's `failed` tells of them."""


def _silence_warnings() -> None:
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_ignore)
