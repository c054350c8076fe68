from tests.made_run import make_run  # noqa: F401
