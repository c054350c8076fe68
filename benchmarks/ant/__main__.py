"""What the ant and its wall do, measured.

python -m benchmarks.ant walls [RUN...]    does an ant get past the wall other than through its gate?
python -m benchmarks.ant ablation          what learning needs: one setting at a time, on a wide gate
"""

import tyro

from benchmarks.ant.ablation import ablation
from benchmarks.ant.walls import walls
from spjax.cache import keep_compiled_programs

if __name__ == "__main__":
    keep_compiled_programs()
    tyro.extras.subcommand_cli_from_dict({"walls": walls, "ablation": ablation})
