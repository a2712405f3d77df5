"""python -m hf_lineage.cli."""

import sys

from hf_lineage.cli import main

sys.exit(main())
