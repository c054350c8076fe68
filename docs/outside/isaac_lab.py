"""A curriculum term of Isaac Lab: every environment that is reset gets its next context from a teacher, in env.contexts."""

import torch
from isaaclab.managers import ManagerTermBase  # with mjlab: from mjlab.managers


class Teach(ManagerTermBase):
    """Tells the teacher of the episodes that ended, and asks it for the next ones."""

    def __init__(self, cfg, env):
        super().__init__(cfg, env)
        self.teacher, self.metrics = cfg.params["make_teacher"](), {}
        size = (env.num_envs, self.teacher.space.size)
        env.contexts = torch.zeros(size, device=env.device)

    def __call__(self, env, env_ids, make_teacher, num_episodes):
        """Runs before the instances are reset."""
        ids = torch.arange(env.num_envs, device=env.device)[env_ids]
        ended = ids[env.episode_length_buf[ids] > 0]  # none at the first reset
        if len(ended):
            totals = sum(env.reward_manager._episode_sums.values())[ended]
            survived = env.termination_manager.time_outs[ended]
            told = (env.contexts[ended], totals, survived)
            self.teacher.record(*(part.cpu().numpy() for part in told))
        if self.teacher.recorded >= num_episodes:
            metrics = self.teacher.update()
            self.metrics = {k: v for k, v in metrics.items() if isinstance(v, float)}
        contexts = torch.from_numpy(self.teacher.sample(len(ids)))
        env.contexts[ids] = contexts.to(env.device)
        return self.metrics
