"""What a teacher is worth to, and costs, an agent of Stable-Baselines3: ``python -m benchmarks.sb3_teacher``.

PPO trains on the pendulum of docs/tutorials and on the 3-D point mass, with a self-paced teacher (`spjax.NumpyTeacher`) and, for
the same number of environment steps, on the target alone. Recorded are the return and the success rate of the last policy on
fresh draws of the target, the wall time, and the teacher's share of it: all that `sample`, `record` and `update` take, without
what they compile, which has a record of its own. Finished trainings are kept in ``runs/sb3-teacher``, so that a cut benchmark
goes on with what is missing. Writes ``benchmarks/results/sb3-teacher.json``.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

import spjax
from benchmarks import command_line
from spjax import catalogue
from spjax.analysis.records import record
from spjax.cache import keep_compiled_programs
from spjax.envs.base import Env
from spjax.outside.checks import Numbers
from spjax.outside.teacher import Metrics
from spjax.presets.point_mass import BUFFER_SIZE, K_ALPHA, STD_FLOOR, ZETA
from spjax.runs.files import write_json
from spjax.runs.provenance import commit, device, versions
from spjax.runs.results import Record, read_records, write_records
from spjax.self_paced.schedules import Bound, Proportion
from spjax.teachers import SelfPaced

try:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    from spjax.envs.adapters.gymnasium import TaskEnv, TaskVectorEnv
    from spjax.outside.gymnasium import TaughtEnv
    from spjax.outside.stable_baselines3 import TeacherCallback
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"the benchmark needs {missing.name}: pip install 'spjax[bench]'"
    ) from None

RESULTS = Path(__file__).parent / "results" / "sb3-teacher.json"
TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorials" / "own_task.py"
NUM_ENVS, ROLLOUT = 8, 256  # environments, and steps of each between updates
EPISODES = 100  # of the target, that a policy is tested in
TEACHERS = {True: "self-paced", False: "default"}  # whether there is one
PACKAGES = ("stable_baselines3", "gymnasium", "torch")

Name = Literal["pendulum", "point-mass-3d"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A task, how its curriculum goes, and for how long."""

    task: Env
    curriculum: SelfPaced
    discount: float
    steps: int


@dataclasses.dataclass(frozen=True)
class Result:
    """Of one training; everything that its numbers depend on is in it."""

    discounted_return: float
    success_rate: float
    wall_seconds: float
    teacher_share: float
    compile_seconds: float
    device: str
    versions: dict[str, str | None]
    commit: str | None


class Timed(spjax.NumpyTeacher):
    """A teacher that knows how long it was busy."""

    seconds = 0.0

    def sample(self, count: int = 1) -> np.ndarray:
        """Returns contexts."""
        return self._timed(lambda: spjax.NumpyTeacher.sample(self, count))

    def record(self, contexts: Numbers, returns: Numbers, successes: Numbers) -> None:
        """Records episodes."""
        told = (contexts, returns, successes)
        self._timed(lambda: spjax.NumpyTeacher.record(self, *told))

    def update(self) -> Metrics:
        """Updates the teacher."""
        return self._timed(lambda: spjax.NumpyTeacher.update(self))

    def _timed(self, call: Callable[[], Metrics]) -> Metrics:
        start = time.perf_counter()
        result = call()
        self.seconds += time.perf_counter() - start
        return result


def case_of(name: Name) -> Case:
    """Returns the task of that name with its curriculum."""
    if name == "pendulum":
        catalogue.use(str(TUTORIAL))
        # alpha arrives at the target long before the policy can swing up there
        schedule = Bound(performance_bound=30.0)
        curriculum = SelfPaced(schedule=schedule, value_source="return", max_kl=0.1)
        return Case(catalogue.make("task", name), curriculum, 0.99, 200_000)
    curriculum = SelfPaced(
        schedule=Proportion(zeta=ZETA["ppo"], offset=K_ALPHA["ppo"]),
        value_source="return",
        buffer_size=BUFFER_SIZE,
        std_floor=STD_FLOOR[name],
    )
    return Case(catalogue.make("task", name), curriculum, 0.95, 600_000)


def train(case: Case, seed: int, taught: bool, steps: int) -> Result:
    """Trains one policy, with the teacher or on the target alone, and tests it."""
    compile_seconds = 0.0
    if taught:
        compile_seconds = _compile(case)
        teacher = Timed.for_task(case.curriculum, case.task, seed)
        make = lambda: TaughtEnv(TaskEnv(case.task), teacher, case.discount)  # noqa: E731
    else:
        make = lambda: TaskEnv(case.task)  # noqa: E731
    agent = PPO(
        "MlpPolicy",
        DummyVecEnv([make] * NUM_ENVS),
        n_steps=ROLLOUT,
        gamma=case.discount,
        seed=seed,
        device="cpu",
    )
    start = time.perf_counter()
    agent.learn(steps, callback=TeacherCallback(teacher) if taught else None)
    wall_seconds = time.perf_counter() - start
    discounted_return, success_rate = test(case, agent, seed)
    return Result(
        discounted_return=discounted_return,
        success_rate=success_rate,
        wall_seconds=wall_seconds,
        teacher_share=teacher.seconds / wall_seconds if taught else 0.0,
        compile_seconds=compile_seconds,
        device=device(),
        versions=versions(PACKAGES),
        commit=commit(),
    )


def test(case: Case, agent: PPO, seed: int) -> tuple[float, float]:
    """Returns mean discounted return and success rate of the stochastic policy in draws of the target."""
    envs = TaskVectorEnv(case.task, EPISODES)
    observations, _ = envs.reset(seed=10_000 * (seed + 1))
    going = np.ones(EPISODES, bool)
    success = np.zeros(EPISODES, bool)
    total = np.zeros(EPISODES)
    for step in range(case.task.horizon):
        actions, _ = agent.predict(observations)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        total += np.where(going, case.discount**step * rewards, 0.0)
        ended = going & (terminated | truncated)
        success |= ended & infos.get("success", False)
        going &= ~ended
    return float(total.mean()), float(success.mean())


def main(
    tasks: tuple[Name, ...] = ("pendulum", "point-mass-3d"),
    seeds: int = 5,
    steps: int | None = None,
    results: Path = RESULTS,
    runs: Path = Path("runs") / "sb3-teacher",
) -> None:
    """Trains what is missing and writes the records; those of other tasks stay.

    Args:
        tasks: what to train on.
        seeds: of each, with the teacher and without.
        steps: of the environments in each training; by default 200,000 on the pendulum and 600,000 on the point mass.
        results: file to write.
        runs: folder of the trainings that are finished.
    """
    torch.set_num_threads(1)
    keep_compiled_programs()
    records: list[Record] = []
    for name in tasks:
        case = case_of(name)
        budget = case.steps if steps is None else steps
        found: dict[bool, list[Result]] = {True: [], False: []}
        for seed in range(1, seeds + 1):
            for taught, trained in found.items():
                file = runs / f"{name}-{TEACHERS[taught]}-{budget}-{seed}.json"
                if not file.is_file():
                    result = train(case, seed, taught, budget)
                    write_json(file, dataclasses.asdict(result))
                trained.append(Result(**json.loads(file.read_text("utf-8"))))
        for taught, trained in found.items():
            records += _records(name, case, taught, budget, trained)
    old = read_records(results) if results.is_file() else []
    others = [one for one in old if one["env"] not in tasks]
    write_records(results, [*others, *records])


def _compile(case: Case) -> float:
    """Compiles what the teacher needs, once in this process, and returns the seconds that it took."""
    start = time.perf_counter()
    teacher = spjax.NumpyTeacher.for_task(case.curriculum, case.task)
    teacher.tell(teacher.sample(1), [0.0], [False])
    return time.perf_counter() - start


def _records(
    name: Name, case: Case, taught: bool, steps: int, found: Sequence[Result]
) -> list[Record]:
    metrics = {
        "discounted_return": [one.discounted_return for one in found],
        "success_rate": [one.success_rate for one in found],
        "wall seconds": [one.wall_seconds for one in found],
    }
    if taught:
        metrics["teacher's share of wall time"] = [one.teacher_share for one in found]
        metrics["seconds the teacher compiles, first seed"] = [found[0].compile_seconds]
    teacher = TEACHERS[taught]
    for metric, values in metrics.items():
        print(f"{name}, {teacher}, {metric}: {np.mean(values):.4g}", flush=True)
    return [
        record(
            experiment="sb3-teacher",
            env=name,
            agent="Stable-Baselines3 PPO",
            teacher=teacher,
            schedule=catalogue.name_of(case.curriculum.schedule) if taught else None,
            settings={"steps": steps, "environments": NUM_ENVS},
            metric=metric,
            seeds=range(1, len(values) + 1),
            values=values,
            device=found[0].device,
            versions=found[0].versions,
            commit=found[0].commit,
            command=command_line("benchmarks.sb3_teacher"),
        )
        for metric, values in metrics.items()
    ]


if __name__ == "__main__":
    tyro.cli(main)
