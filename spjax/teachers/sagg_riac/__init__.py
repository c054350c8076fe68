"""SAGG-RIAC: where competence changes most, in a tree of regions."""

from spjax.teachers.sagg_riac.teacher import SAGGRIAC

__all__ = ["SAGGRIAC"]
