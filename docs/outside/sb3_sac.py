"""Stable-Baselines3 SAC on the point mass, with a teacher that is updated every ten episodes."""

import sys

from stable_baselines3 import SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import spjax
from spjax.envs import PointMass
from spjax.envs.adapters.gymnasium import TaskEnv
from spjax.outside.gymnasium import TaughtEnv
from spjax.outside.stable_baselines3 import TeacherCallback
from spjax.self_paced.schedules import Bound
from spjax.teachers import SelfPaced

task = PointMass(dimensions=2)
curriculum = SelfPaced(
    schedule=Bound(performance_bound=3.0),
    value_source="return",
    std_floor=(0.2, 0.1875),
)
teacher = spjax.NumpyTeacher.for_task(curriculum, task)

env = Monitor(TaughtEnv(TaskEnv(task), teacher, discount=0.95))
agent = SAC("MlpPolicy", env, gamma=0.95, seed=0, device="cpu", verbose=1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
agent.learn(steps, callback=TeacherCallback(teacher, num_episodes=10))
print(evaluate_policy(agent, TaskEnv(task), warn=False))  # on the target
