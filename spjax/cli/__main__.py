"""`python -m spjax.cli` is `spjax`."""

import sys

from spjax.cli.app import main

sys.exit(main())
