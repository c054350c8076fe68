"""A picture of your own: success in the contexts of the curriculum beside success on the target tasks."""

import dataclasses

from matplotlib.figure import Figure

from spjax.analysis.pictures import Picture
from spjax.catalogue import part


@part("picture", "training-and-target")
@dataclasses.dataclass(frozen=True)
class TrainingAndTarget(Picture):
    """Where the two meet, the curriculum has arrived."""

    apart = True  # each value of a sweep has a picture of its own

    def draw(self, run):
        """Draws a pair of lines a seed, in one colour; None would mean that there is nothing to show."""
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()

        (lanes,) = run.groups()
        training = run.metric_curves("success_rate", lanes)
        target = run.evaluation_curves("success_rate", lanes)
        for number, seed in enumerate(run.seeds(lanes)):
            color = f"C{number}"
            axes.plot(
                target.iterations,
                target.values[number],
                color=color,
                label=f"seed {seed}",
            )
            axes.plot(
                training.iterations, training.values[number], color=color, linestyle=":"
            )

        axes.set(xlabel="iteration", ylim=(-0.02, 1.02))
        axes.set_ylabel("success rate: target (solid), training (dotted)")
        axes.legend()
        return figure
