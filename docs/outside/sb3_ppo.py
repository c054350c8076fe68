"""Stable-Baselines3 PPO on a pendulum of any mass and length, whose next one a self-paced teacher chooses."""

import sys

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import spjax
from spjax import catalogue
from spjax.envs.adapters.gymnasium import TaskEnv
from spjax.outside.gymnasium import TaughtEnv
from spjax.outside.stable_baselines3 import TeacherCallback
from spjax.self_paced.schedules import Bound
from spjax.teachers import SelfPaced

catalogue.use("docs/tutorials/own_task.py")
task = catalogue.make("task", "pendulum")
schedule = Bound(performance_bound=30.0)  # half of what standing all the time gives
curriculum = SelfPaced(schedule=schedule, value_source="return", max_kl=0.1)
teacher = spjax.NumpyTeacher.for_task(curriculum, task)

env = make_vec_env(lambda: TaughtEnv(TaskEnv(task), teacher, discount=0.99), n_envs=8)
agent = PPO("MlpPolicy", env, n_steps=256, seed=0, device="cpu", verbose=1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
agent.learn(steps, callback=TeacherCallback(teacher))
print(evaluate_policy(agent, TaskEnv(task), warn=False))  # on the target
