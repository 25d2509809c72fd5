"""`python -m makemar.cli` is `make-mar`."""

import sys

from makemar.cli.app import main

sys.exit(main())
