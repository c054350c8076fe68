"""Batches of C MuJoCo simulations, advanced with NumPy alone: what the callbacks of the engine for CPU call."""

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import NamedTuple

import mujoco
import mujoco.batch
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from spjax.cores import share_of_cores
from spjax.envs.physics.scene import CompiledScene
from spjax.envs.physics.servo import Feedback

LIMIT = 1e10  # positions, velocities and activations beyond are failures, as in MuJoCo
_CORE = ("qpos", "qvel", "act", "qacc_warmstart")
_CORE_BITS = int(
    mujoco.mjtState.mjSTATE_QPOS
    | mujoco.mjtState.mjSTATE_QVEL
    | mujoco.mjtState.mjSTATE_ACT
    | mujoco.mjtState.mjSTATE_WARMSTART
)
_WORTH_A_THREAD = 8  # instances; waking a thread for fewer takes longer than they do


class _Event(NamedTuple):
    """What happened to some of the instances in a control step."""

    contacts: Bool[np.ndarray, "instance contact"]
    failed: Bool[np.ndarray, " instance"]


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

    def track(
        self, feedback: Feedback, steps: int, path: bool, *pieces: PyTree
    ) -> Float[np.ndarray, "instance out"]:
        """Returns what `Simulations.track` does, for pieces of the rows (set-points, core, control, fields, ended)."""
        rows = np.concatenate([np.asarray(piece) for piece in pieces])
        width = 2 * len(feedback.stiffness) * steps
        set_points = rows[:, :width].reshape(len(rows), steps, 2, -1)
        with self._lent(len(rows)) as simulations:
            return simulations.track(feedback, set_points, path, rows[:, width:])

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
        self._warning = self._batch.warning
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
            core, event = self._run(ids)
            if event is None:
                out[ids, :size] = core
            else:
                out[ids[~event.failed], :size] = core[~event.failed]
                out[ids, size:-1] = event.contacts
                out[ids, -1] = event.failed
        return out

    def track(
        self,
        feedback: Feedback,
        set_points: Float[np.ndarray, "instance step 2 joint"],
        path: bool,
        rows: Float[np.ndarray, "instance row"],
    ) -> Float[np.ndarray, "instance out"]:
        """Returns (core, core before the end, contacts, failed, steps taken, path) after some control steps.

        The path is the core and whether the motion has ended, after each of them.
        """
        count, steps = set_points.shape[:2]
        size = self._cores.shape[-1]
        after = rows[:, :size].astype(float)
        before = after.copy()
        contacts = np.zeros((count, len(self._compiled.scene.contacts)), bool)
        failed, taken = np.zeros(count, bool), np.zeros(count)
        states = np.empty((count, steps if path else 0, size + 1))

        going = rows[:, -1] == 0
        sound = np.isfinite(rows).all(axis=1)
        sound &= np.isfinite(set_points).all(axis=(1, 2, 3))
        failed |= going & ~sound
        ids = np.flatnonzero(going & sound)
        if ids.size:
            self._load(rows)
        qpos, qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        control = self._batch.bind("ctrl")
        for step in range(steps):
            if ids.size:
                which = slice(None) if ids.size == count else ids
                wanted = set_points[which, step]
                off = wanted[:, 0] - qpos[which][:, feedback.positions]
                slow = wanted[:, 1] - qvel[which][:, feedback.velocities]
                control[which] = feedback.stiffness * off + feedback.damping * slow
                core, event = self._run(ids)
                if event is None:
                    after[which] = core
                else:
                    fails = event.failed
                    ends = fails | event.contacts.any(axis=1)
                    before[ids[ends]] = after[ids[ends]]
                    after[ids[~fails]] = core[~fails]
                    contacts[ids[~fails]] = event.contacts[~fails]
                    failed[ids], taken[ids[ends]] = fails, step + 1
                    ids = ids[~ends]
            if path:
                states[:, step, :size] = after
                states[:, step, size] = 1
                states[ids, step, size] = 0
        before[ids], taken[ids] = after[ids], steps
        flags = contacts, failed[:, None], taken[:, None]
        out = np.concatenate([after, before, *flags, states.reshape(count, -1)], axis=1)
        return out.astype(rows.dtype)

    def _load(self, rows: Float[np.ndarray, "instance row"]) -> None:
        start = 0
        for array, which in self._inputs:
            shape = array[0, which].shape
            end = start + math.prod(shape)
            array[:, which] = rows[:, start:end].reshape(len(rows), *shape)
            start = end
        self._batch.bind("time")[:] = 0
        self._warning[:] = 0

    def _run(self, ids: Int[np.ndarray, " some"]) -> tuple[np.ndarray, "_Event | None"]:
        """Returns the cores of some instances after a control step, and what happened in it."""
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
        core = cores[:, -1]
        found = sensors[..., self._compiled.columns] > 0  # instance, substep, pair
        warned = self._warning[ids, :, 1]
        if (np.abs(core) < LIMIT).all() and not (
            found.any() or warned.any() or stopped.any()
        ):
            return core, None
        core = core.copy()
        contacts = np.zeros((ids.size, self._compiled.groups.shape[1]), bool)
        hits, first = _first_hits(found)
        core[hits] = cores[hits, first]
        contacts[hits] = found[hits, first] @ self._compiled.groups
        sound = (np.abs(core) < LIMIT).all(axis=1)
        failed = stopped[ids] | warned.any(axis=1) | ~sound
        return core, _Event(contacts, failed)


def _first_hits(
    found: Bool[np.ndarray, "instance substep pair"],
) -> tuple[Int[np.ndarray, " hit"], Int[np.ndarray, " hit"]]:
    """Returns which instances have a contact in any substep, and the first of these substeps."""
    substeps: Bool[np.ndarray, "instance substep"] = np.any(found, axis=2)
    hits = np.flatnonzero(np.any(substeps, axis=1))
    return hits, substeps[hits].argmax(axis=1)
