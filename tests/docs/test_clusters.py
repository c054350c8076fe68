"""The files of the page on clusters, as far as a single machine can check them.

Commands of SLURM and Ray only say how they were called.
"""

import os
import signal
import socket
import subprocess
import time

import pytest

from tests.docs.running import ROOT

FILES = ROOT / "docs" / "clusters"
SAYS = '#!/bin/bash\necho "$(basename "$0") $*" >> "$LOG"\n'
COMMANDS = {
    "scontrol": "#!/bin/bash\nprintf '127.0.0.1\\nnode2\\nnode3\\n'\n",
    "srun": SAYS,
    "spjax": SAYS
    + '[ -z "${STAYS:-}" ] && exit 0\ntrap \'echo saved >> "$LOG"; exit 143\' TERM\n'
    "while :; do sleep 0.05; done\n",
}


@pytest.fixture
def job(tmp_path):
    """Starts a script as SLURM would; what its commands were called with comes into `log`."""
    for name, text in COMMANDS.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    log.touch()

    def start(script, **variables):
        return subprocess.Popen(
            ["bash", FILES / script, tmp_path / "run"],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "LOG": str(log),
                "SLURM_JOB_NODELIST": "node[1-3]",
                "SLURM_JOB_NUM_NODES": "3",
                "SLURM_CPUS_PER_TASK": "8",
                **variables,
            },
        )

    start.log = log
    return start


@pytest.fixture
def listening():
    """A number of a job whose Ray answers."""
    for number in range(1000):
        try:
            server = socket.create_server(("127.0.0.1", 20_000 + number))
        except OSError:
            continue
        with server:
            yield number
        return


def test_a_job_of_slurm_brings_a_ray_cluster_and_sweeps_on_it(job, listening, tmp_path):
    assert job("sweep-ray.slurm", SLURM_JOB_ID=str(listening)).wait() == 0
    deadline = time.monotonic() + 60
    while job.log.read_text().count("\n") < 3:  # two of them in the background
        assert time.monotonic() < deadline, job.log.read_text()
        time.sleep(0.02)
    at = f"127.0.0.1:{20_000 + listening}"
    start = "ray start --block --disable-usage-stats --num-cpus=8"
    assert set(job.log.read_text().splitlines()) == {
        f"srun --nodes=1 --ntasks=1 --nodelist=127.0.0.1 {start} --head --port={20_000 + listening}",
        f"srun --nodes=2 --ntasks=2 --exclude=127.0.0.1 {start} --address={at}",
        "spjax sweep point-mass-3d --seeds 100 --over teacher.schedule.zeta=0.4,0.8,1.6 "
        f"--out {tmp_path}/run --engine ray --address {at}",
    }


def test_a_job_that_slurm_ends_saves_and_goes_on_when_it_is_submitted_again(
    job, listening, tmp_path
):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").touch()
    script = job("sweep-ray.slurm", SLURM_JOB_ID=str(listening), STAYS="1")
    while "spjax" not in job.log.read_text():
        assert script.poll() is None, "the job ended before its sweep began"
        time.sleep(0.02)
    time.sleep(0.2)  # for the trap
    script.send_signal(signal.SIGTERM)
    assert script.wait() == 143
    said = job.log.read_text().splitlines()
    at = f"127.0.0.1:{20_000 + listening}"
    assert f"spjax resume {tmp_path}/run --engine ray --address {at}" in said
    assert said[-1] == "saved"


def test_a_job_of_slurm_starts_a_process_for_each_accelerator(job, tmp_path):
    assert job("sweep-jax.slurm").wait() == 0
    assert job.log.read_text() == (
        "srun spjax sweep point-mass-3d --seeds 512 --over teacher.schedule.zeta=0.4,0.8,1.6 "
        f"--out {tmp_path}/run --engine jax\n"
    )


@pytest.mark.slow
def test_the_cluster_file_is_one_that_ray_accepts():
    if not os.environ.get("CI"):
        pytest.importorskip("ray")
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load((FILES / "ray.yaml").read_text()))
    validate_config(config)
    assert config["max_workers"] == 3
