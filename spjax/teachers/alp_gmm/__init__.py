"""ALP-GMM: where learning progress is highest, by a Gaussian mixture."""

from spjax.teachers.alp_gmm.teacher import ALPGMM

__all__ = ["ALPGMM"]
