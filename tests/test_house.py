"""The house: a test file for every module, small files, short functions, and a listing that fits on a page."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hf_lineage"
MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_ENTRIES, MOST_FILES = 330, 40, 18, 180
INNER = {f"checkpoint/{form}" for form in ("formats", "gguf", "onnx", "pickles")}
MOST_LINES_OF_THE_PACKAGE, MOST_LINES_OF_TESTS = 34_910, 42_850
"""They only fall: lower them whenever there are fewer lines."""

ENTRY = "runs the command, as tests of the command do in a process of their own"
ELSEWHERE = {
    "action.py": "tests/action has a file for each part of it",
    "cli/__main__.py": ENTRY,
    "cli/action_inputs.py": "tests/action/test_inputs.py",
}
"""Modules without a test file of their own name, and where their tests are instead."""

OPENING = {
    "files/atomic.py": "writes",
    "files/paths.py": "reads",
    "files/safetensors.py": "fills a file that has no name",
    "cli/__init__.py": "opens the null device",
    "source/run.py": "writes the folder that a process which runs a model sees",
    "running/worker.py": "opens its own standard output",
    "action.py": "appends to the files that the runner of GitHub names",
}
"""Modules that open files by themselves, and what each does; all others ask the first two."""


def modules():
    """Every module but the files that make a folder a package, relative to the package."""
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def functions(file):
    """Name and number of lines of every function of a file, without its decorators, which list options of a command."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_module_has_a_test_file_of_its_own_name_or_a_reason():
    tests = {module: ROOT / "tests" / module.parent / f"test_{module.stem}.py" for module in modules()}
    missing = {str(module) for module, test in tests.items() if not test.exists()}
    assert missing - ELSEWHERE.keys() == set(), "write their tests, or say in ELSEWHERE where they are"
    assert ELSEWHERE.keys() - missing == set(), "take these out of ELSEWHERE: they have tests, or are gone"


def test_no_file_is_longer_than_a_few_screens():
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}
    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}


def lines_below(folder):
    return sum(len(file.read_text("utf-8").splitlines()) for file in (ROOT / folder).rglob("*.py"))


def test_neither_the_package_nor_its_tests_grow():
    assert lines_below("hf_lineage") <= MOST_LINES_OF_THE_PACKAGE
    assert lines_below("tests") <= MOST_LINES_OF_TESTS


def test_no_function_is_longer_than_a_screen():
    lengths = {
        f"{file.relative_to(ROOT)}: {name}": lines for file in PACKAGE.rglob("*.py") for name, lines in functions(file)
    }
    assert len(lengths) > 500
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


NO_PARTICIPLES = {"_need", "embed", "observed", "seed", "undeclared", "verified"}
"""Names that only look like participles, and adjectives that docs/reference.md and statistics have."""
IRREGULAR = {"beside", "built", "chosen", "drawn", "given", "held", "kept", "known", "left", "lost", "made", "seen"}


def test_no_function_or_class_is_named_by_a_bare_participle():
    bare = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in NO_PARTICIPLES:
                word = node.name.strip("_").lower()
                if word in IRREGULAR or (word.endswith("ed") and "_" not in word):
                    bare.add(f"{file.relative_to(PACKAGE)}: {node.name}")
    assert bare == set(), "name a function by a verb and its noun, a class by a noun"


def opens(node):
    """Whether a call opens or writes a file by itself."""
    match node.func:
        case ast.Name(id="open") | ast.Attribute(attr="write_bytes" | "write_text"):
            return True
        case ast.Attribute(value=ast.Name(id="os"), attr="open" | "fdopen" | "rename" | "replace"):
            return True
        case ast.Attribute(attr="open"):
            mode = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            return isinstance(mode, str) and set(mode) <= set("rwxabt+")
    return False


def test_files_are_written_and_read_in_one_place_each():
    """There it is settled, once, that no link is written through and no pipe is waited for."""
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and opens(node)
    }
    assert found == OPENING.keys()


def test_the_listing_of_each_folder_fits_on_a_page():
    folders = {file.parent for file in PACKAGE.rglob("*.py")}  # where a folder was moved, its bytecode stays
    counts = {folder.relative_to(PACKAGE).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MOST_ENTRIES} == {}
    assert {name for name in counts if "/" in name} == INNER, "no folder stands in a folder but these"


def test_the_package_has_few_files():
    assert len(list(PACKAGE.rglob("*.py"))) <= MOST_FILES


def test_modules_are_imported_by_their_own_names():
    """A name is imported from the module that defines it, and a folder offers nothing by itself but its modules."""
    plain = [path for path in PACKAGE.rglob("__init__.py") if path.parent.name not in {"hf_lineage", "cli", "report"}]
    assert [str(path) for path in plain if len(ast.parse(path.read_text("utf-8")).body) > 1] == []
