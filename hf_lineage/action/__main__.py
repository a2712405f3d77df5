"""python -m hf_lineage.action check|key."""

import sys

from hf_lineage.action import main

sys.exit(main(sys.argv[1:]))
