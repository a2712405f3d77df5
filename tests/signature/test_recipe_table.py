"""The recipes by name: naming them needs no NumPy."""

import subprocess
import sys

from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.recipe_table import PARAMETERS


def test_the_first_undoes_everything_and_naming_them_needs_no_numpy():
    assert list(PARAMETERS) == ["robust", "paper"]
    assert [(recipe.name, recipe.version) for recipe in RECIPES.values()] == [("robust", 4), ("paper", 1)]
    paper, robust = RECIPES["paper"], RECIPES["robust"]
    assert (paper.gains, paper.means, paper.cap, paper.ones, paper.gates) == (False,) * 5
    assert (robust.gains, robust.means, robust.cap, robust.ones, robust.gates) == (True,) * 5
    code = "import sys, hf_lineage.signature.recipe_table as table; print(*table.PARAMETERS, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["robust", "paper", "False"]
