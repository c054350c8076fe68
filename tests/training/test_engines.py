"""What an engine is refused for, and how blocks go to its workers; test_ray has a whole cluster."""

import socket
import sys
import threading
from collections import Counter

import jax
import numpy as np
import pytest

import spjax
from spjax import cores
from spjax.cli import main
from spjax.cores import num_cores
from spjax.runs.checkpoint import Checkpoints
from spjax.runs.lock import locked
from spjax.runs.provenance import cpu_model, versions
from spjax.training.engines import ray_cluster, share
from spjax.training.engines.share import About, Share
from tests.training.conftest import tiny


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"engine": "dask"}, r"^engine must be ray or jax, got 'dask'$"),
        ({"address": "auto"}, r"^an address is for the engine ray, got 'auto' without"),
    ],
)
def test_an_engine_that_is_not_there_is_refused(tmp_path, how, why):
    with pytest.raises(ValueError, match=why):
        spjax.train(tiny(), tmp_path / "run", progress=False, **how)
    assert not list(tmp_path.iterdir())


def test_without_ray_one_sentence_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["train", "point-mass-2d", "--engine", "ray", "--out"]
    assert main([*command, str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == (
        "spjax: the engine ray needs Ray, which is not installed: pip install 'spjax[ray]'\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_address_without_a_cluster_is_refused_before_anything_is_made(tmp_path):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address, why in (
        (f"localhost:{port}", rf"^no Ray cluster answers at \S+:{port}: "),
        ("nowhere", r'^address must be "auto" or "host:port", got \'nowhere\'$'),
    ):
        with pytest.raises(ValueError, match=why):
            spjax.train(tiny(), tmp_path / "run", engine="ray", address=address)
    assert not list(tmp_path.iterdir())


def test_a_worker_that_does_not_see_the_run_folder_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(share, "_UNTIL_SEEN", 0.0)
    with locked(tmp_path) as holder:
        other = holder._replace(token="of another folder under the same path")
        for folder, who in ((tmp_path / "missing", holder), (tmp_path, other)):
            with pytest.raises(ValueError, match=rf" does not see {folder}; put the"):
                Share(str(folder), who, (), None, 1).about()


def test_a_worker_uses_no_more_cores_than_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "_most", None)  # as it is again afterwards
    with locked(tmp_path) as holder:
        about = Share(str(tmp_path), holder, (), None, 1).about()
    assert num_cores() == 1
    assert about.device.startswith("1 CPU core (")


def about(**changes):
    """Returns a worker like this process."""
    same = About("node7", "", 1, cpu_model(), jax.default_backend(), versions())
    return same._replace(**changes)


def test_a_worker_with_another_jax_or_another_kind_of_device_is_refused():
    assert share.fitting(about()) == about()
    with pytest.raises(ValueError, match=r"^node7 has jax 0\.1 and this machine \d"):
        share.fitting(about(versions=versions() | {"jax": "0.1"}))
    with pytest.raises(ValueError, match=r"^node7 computes on tpu and this machine on"):
        share.fitting(about(platform="tpu"))


def test_a_worker_has_the_cores_of_the_smallest_node_or_one_accelerator():
    head, small, big = {"CPU": 0.0}, {"CPU": 8.0}, {"CPU": 64.0, "memory": 1e9}
    assert ray_cluster._needs([head, small, big]) == {"CPU": 8}
    gpus = {"CPU": 64.0, "GPU": 4.0}
    assert ray_cluster._needs([head, small, gpus]) == {"GPU": 1, "CPU": 16}


def test_a_block_that_is_lost_twice_is_halved_and_one_that_is_lost_again_given_up():
    losses = Counter()
    assert ray_cluster._once_more((3, 4, 5), losses) == [(3, 4, 5)]
    assert ray_cluster._once_more((3, 4, 5), losses) == [(3,), (4, 5)]
    for _ in range(2):
        assert ray_cluster._once_more((3,), losses) == [(3,)]
    with pytest.raises(OSError, match=r"the runs 3 to 3 were lost 5 times; "):
        ray_cluster._once_more((3,), losses)


def rows(lanes):
    return {"state": np.asarray(lanes, np.float32), "results": np.asarray(lanes)}


def test_what_another_machine_saves_is_waited_for(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save_block(4, [0, 1], rows([0, 1]))
    with pytest.raises(OSError, match="does not show 1 runs that were saved there"):
        checkpoints.wait_for(4, [1, 2], 0.0)
    late = threading.Timer(0.2, checkpoints.save_block, (4, [2], rows([2])))
    late.start()
    checkpoints.wait_for(4, [1, 2], 60.0)


def test_a_lane_that_was_saved_twice_counts_once(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save_block(4, [2, 3], rows([2, 3]))
    checkpoints.save_block(4, [0, 1, 2], rows([0, 1, 2]))
    lanes, found = checkpoints.beside(4, ["results"])
    assert lanes == found["results"].tolist() == [0, 1, 2, 3]
