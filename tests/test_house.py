"""The house: a test file for every module, small files, short functions, and a listing that fits on a page."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hf_lineage"
MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_ENTRIES = 250, 40, 17

ENTRY = "runs the command, as tests of the command do in a process of their own"
HARNESS = (
    "tests/test_conformance.py proves every class with them, tests/test_conformance_refuses.py shows what they refuse"
)
ELSEWHERE = {
    "action/__main__.py": ENTRY,
    "cli/__main__.py": ENTRY,
    **{
        f"signature/proving/{name}.py": HARNESS
        for name in [
            "active",
            "inputs",
            "models",
            "outcome",
            "proof",
            "rules",
            "run",
            "specimen",
            "stream",
            "traffic",
            "wanted",
        ]
    },
}
"""Modules without a test file of their own name, and where their tests are instead."""

OPENING = {
    "files/atomic.py": "writes",
    "files/regular.py": "reads",
    "files/tensor_file.py": "fills a file that has no name",
    "cli/__init__.py": "opens the null device",
    "cli/surroundings.py": "opens the null device",
    "index/decoding.py": "writes to its own standard output",
    "action/runner.py": "appends to the files that the runner of GitHub names",
}
"""Modules that open files by themselves, and what each does; all others ask the first two."""


def modules():
    """Every module but the files that make a folder a package, relative to the package."""
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def own_test(module):
    return ROOT / "tests" / module.parent / f"test_{module.stem}.py"


def functions(file):
    """Name and number of lines of every function of a file, without its decorators, which list options of a command."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_module_has_a_test_file_of_its_own_name_or_a_reason():
    missing = {str(module) for module in modules() if not own_test(module).exists()}
    assert missing - ELSEWHERE.keys() == set(), "write their tests, or say in ELSEWHERE where they are"
    assert ELSEWHERE.keys() - missing == set(), "take these out of ELSEWHERE: they have tests, or are gone"


@pytest.mark.parametrize("reason", sorted(set(ELSEWHERE.values())))
def test_the_tests_that_stand_elsewhere_are_there(reason):
    files = [ROOT / word for word in reason.replace(",", " ").split() if word.endswith(".py")]
    assert files or reason == ENTRY
    assert [str(file) for file in files if not file.exists()] == []


def test_no_test_file_is_named_after_a_module_that_is_gone_or_stands_in_another_room():
    """Rooms are mirrored; a file about a subject rather than a module has a name that no module of any room has."""
    stems = {module.stem for module in modules()}
    files = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")]
    rooms = {str(module.with_name(f"test_{module.name}")) for module in modules()}
    mirrored = [file for file in files if (PACKAGE / file.parent).is_dir() and file.parent != Path()]
    astray = [str(file) for file in mirrored if file.stem.removeprefix("test_") in stems and str(file) not in rooms]
    assert astray == []


def test_no_file_is_longer_than_a_few_screens():
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}
    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_longer_than_a_screen():
    lengths = {
        f"{file.relative_to(ROOT)}: {name}": lines for file in PACKAGE.rglob("*.py") for name, lines in functions(file)
    }
    assert len(lengths) > 500
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


def opens(node):
    """Whether a call opens or writes a file by itself."""
    if isinstance(node.func, ast.Name):
        return node.func.id == "open"
    if not isinstance(node.func, ast.Attribute):
        return False
    first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    by_path = node.func.attr == "open" and isinstance(first, str) and set(first) <= set("rwxabt+")
    by_system = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
    of_system = node.func.attr in {"open", "fdopen", "rename", "replace"}
    return by_path or (by_system and of_system) or node.func.attr in {"write_bytes", "write_text"}


def test_files_are_written_and_read_in_one_place_each():
    """There it is settled, once, that no link is written through and no pipe is waited for."""
    found = {
        module.as_posix()
        for module in (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse((PACKAGE / module).read_text("utf-8")))
        if isinstance(node, ast.Call) and opens(node)
    }
    assert found == OPENING.keys()


def test_the_listing_of_the_package_fits_on_a_page():
    entries = sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__")
    assert len(entries) <= MOST_ENTRIES, entries
    assert [name for name in entries if name.endswith(".py")] == ["__init__.py", "errors.py"]
    assert [name for name in entries if "." in name] == ["__init__.py", "errors.py", "py.typed"]
