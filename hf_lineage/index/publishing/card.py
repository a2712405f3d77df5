"""Card: what the page of an index on the Hub says of it; what people wrote beside that stays."""

from __future__ import annotations

import re
from typing import Any

from hf_lineage.errors import installation, printable
from hf_lineage.index.key import BITS, VERSION

BEGIN, END = "<!-- begin hf-lineage index -->", "<!-- end hf-lineage index -->"
FRONT = """\
---
pretty_name: Index of model signatures
tags:
- hf-lineage
- model-provenance
configs:
- config_name: default
  data_files: keys/*.parquet
---

# Index of model signatures

"""


def written(card: str, name: str, rows: Any) -> str:
    """Return a card with the figures of an index, by all of its rows; empty text becomes a whole card."""
    block = f"{BEGIN}\n{_block(name, rows)}\n{END}"
    if not card.strip():
        return f"{FRONT}{block}\n"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, card, count=1, flags=re.DOTALL)


def _block(name: str, rows: Any) -> str:
    counted = rows.group_by(["path", "recipe"]).aggregate([([], "count_all")]).sort_by("recipe").to_pylist()
    models = len(rows.group_by(["model", "commit"]).aggregate([]))
    table = "\n".join(f"| {one['path']} | `{one['recipe']}` | {one['count_all']:,} |" for one in counted)
    return f"""\
Keys and signatures of {models:,} model{"s" * (models != 1)}. [hf-lineage](https://github.com/hf-lineage/hf-lineage)
finds with them what a model was made from. They are computed from weights alone and hold no weights.

| Path | Recipe | Models |
| --- | --- | --- |
{table}

```console
$ {installation("index")}
$ hf-lineage identify org/model --index {printable(name, 200)}
$ hf-lineage index pull {printable(name, 200)}
```

`keys/` has a row for each model and path: its name and commit, the width of its residual stream, the number of its
layers, and a key of {BITS} signs (version {VERSION}). `signatures/` has what the exact test compares, in a file for
each row. The author of the index says which model a signature belongs to; `hf-lineage check` reads the weights of
both models itself."""
