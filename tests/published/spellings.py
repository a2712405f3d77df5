"""The tables of spellings.yaml, each read by a test of what understands them."""

from pathlib import Path

import yaml

TABLES = yaml.safe_load(Path(__file__).with_name("spellings.yaml").read_text(encoding="utf-8"))
