"""Who learns: step-based agents and episodic ones, which search in the parameters of whole rollouts."""
