"""The lock of a run folder, on file systems with locks of their own and without."""

import errno
import os
import subprocess
import sys
import time

import pytest

from spjax.runs import lock
from spjax.runs.lock import HELD, LOCK, Holder, locked


@pytest.fixture
def without_flock(monkeypatch):
    """A file system that knows no locks."""

    def failing(handle, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock.fcntl, "flock", failing)


def held_by(folder, holder, age=0.0):
    """Lets a process hold the folder, last heard of some seconds ago."""
    (folder / HELD).write_text(str(holder))
    then = time.time() - age
    os.utime(folder / HELD, (then, then))


def elsewhere():
    return Holder("node7", "elsewhere", os.getpid(), "theirs")


@pytest.mark.parametrize(
    "code", [errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS]
)
def test_a_file_holds_the_folder_where_the_file_system_has_no_locks(
    tmp_path, monkeypatch, code
):
    def failing(handle, how):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(lock.fcntl, "flock", failing)
    with locked(tmp_path) as holder:
        assert Holder.read(tmp_path / HELD) == holder
        with (
            pytest.raises(
                ValueError,
                match=rf"^another process is training in {tmp_path}: process {os.getpid()} on \S+ "
                r"gave a sign of life 0 s ago; without one for 60 s the folder is free$",
            ),
            locked(tmp_path),
        ):
            pass
        assert {file.name for file in tmp_path.iterdir()} == {LOCK, HELD}
    assert not list(tmp_path.iterdir())


def test_another_failure_to_lock_is_not_taken_for_a_missing_lock(tmp_path, monkeypatch):
    def failing(handle, how):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(lock.fcntl, "flock", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), locked(tmp_path):
        pass


@pytest.mark.usefixtures("without_flock")
def test_a_folder_is_free_at_once_after_a_process_of_this_machine_was_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    held_by(tmp_path, Holder.here()._replace(pid=process.pid))
    with locked(tmp_path) as holder:
        assert Holder.read(tmp_path / HELD) == holder


@pytest.mark.usefixtures("without_flock")
def test_a_process_of_another_machine_holds_the_folder_until_it_is_silent_for_a_minute(
    tmp_path,
):
    held_by(tmp_path, elsewhere(), age=50)
    with (
        pytest.raises(ValueError, match=r"on node7 gave a sign of life 5\d s ago"),
        locked(tmp_path),
    ):
        pass
    held_by(tmp_path, elsewhere(), age=61)
    with locked(tmp_path) as holder:
        assert Holder.read(tmp_path / HELD) == holder


@pytest.mark.usefixtures("without_flock")
def test_who_holds_a_folder_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "TOUCHED_EVERY", 0.01)
    with locked(tmp_path):
        os.utime(tmp_path / HELD, (0, 0))
        for _ in range(1000):
            if (tmp_path / HELD).stat().st_mtime:
                break
            time.sleep(0.01)
        assert (tmp_path / HELD).stat().st_mtime > time.time() - 30


@pytest.mark.usefixtures("without_flock")
def test_a_lock_that_another_process_took_over_is_not_given_back(tmp_path):
    with locked(tmp_path):
        held_by(tmp_path, elsewhere())
    assert Holder.read(tmp_path / HELD) == elsewhere()


@pytest.mark.usefixtures("without_flock")
@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_the_lock_needs_no_hard_links(tmp_path, monkeypatch, code):
    def failing(source, target):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(lock.os, "link", failing)
    with locked(tmp_path) as holder:
        assert Holder.read(tmp_path / HELD) == holder
        with pytest.raises(ValueError, match="another process"), locked(tmp_path):
            pass


@pytest.mark.usefixtures("without_flock")
def test_a_lock_that_changed_hands_while_it_was_looked_at_stays_with_its_new_holder(
    tmp_path, monkeypatch
):
    held_by(tmp_path, elsewhere(), age=100)
    new = elsewhere()._replace(token="new")
    rename = os.rename

    def late(source, target):
        held_by(tmp_path, new)  # taken over just before
        monkeypatch.setattr(lock.os, "rename", rename)
        rename(source, target)

    monkeypatch.setattr(lock.os, "rename", late)
    with pytest.raises(ValueError, match="on node7"), locked(tmp_path):
        pass
    assert Holder.read(tmp_path / HELD) == new
