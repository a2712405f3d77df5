"""Fields that hold another kind of value than they may be given are fields of a dataclass like any other."""

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from hf_lineage import Options, Report, check, compare
from hf_lineage.errors import OptionError
from hf_lineage.signature.options import Names, OptionalPath, Spec


def typed() -> None:
    """Never called: `make lint` holds what a type checker knows against it, where an error that is missing is one."""
    options = Options(local_hub="examples/hub", registry=Path("x"), paths="mlp", nulls=["a", Path("b")])
    report: Report = check("a/b", Path("c"), options)
    report = compare(Path("a"), "b")
    rows: dict[str, Any] = check("a/b", ["c/d"]).to_dict()
    hub: Path | None = options.local_hub
    paths: tuple[str, ...] = options.paths
    del report, rows, hub, paths
    Options(local_hub=7)  # type: ignore[arg-type]
    Options(paths=7)  # type: ignore[arg-type]
    Options(alpha="x")  # type: ignore[arg-type]
    Options(nose=1)  # type: ignore[call-arg]
    check(7)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Example:
    names: Names = Names("a", "b")
    path: OptionalPath = OptionalPath()


def test_they_have_their_defaults_and_are_compared_replaced_and_printed():
    assert (Example().names, Example().path) == (("a", "b"), None)
    assert [field.default for field in dataclasses.fields(Example)] == [("a", "b"), None]
    changed = dataclasses.replace(Example(), path=Path("x"))
    assert changed == Example(path=Path("x")) != Example()
    assert hash(Example()) == hash(Example())
    assert repr(Example()) == "Example(names=('a', 'b'), path=None)"
    assert dataclasses.asdict(Example()) == {"names": ("a", "b"), "path": None}


def test_nobody_changes_them_afterwards():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Example().path = Path("x")


def test_options_are_copied_and_sent_to_other_processes():
    options = Options(local_hub="examples/hub", paths="all")
    assert options == copy.deepcopy(options) == pickle.loads(pickle.dumps(options))


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ((), "paths must be all, usual, or some of mlp, mlp_gate, value_output, query_key, each once, not "),
        (("mlp", "mlp"), "each once, not mlp, mlp"),
        (("mlp", "nose"), "each once, not mlp, nose"),
    ],
)
def test_paths_that_are_unknown_or_named_twice_are_refused(paths, message):
    with pytest.raises(OptionError) as error:
        Spec(paths=paths)
    assert message in str(error.value)
