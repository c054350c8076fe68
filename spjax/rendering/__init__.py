"""Films of policies: videos and web pages. Nothing that trains imports this."""

import spjax.envs.physics  # noqa: F401  imports MuJoCo without OpenGL, before the modules here do
