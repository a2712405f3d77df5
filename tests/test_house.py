"""The house: a test file for every module, small files, short functions, and a listing that fits on a page."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hf_lineage"
MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_ENTRIES, MOST_FILES = 330, 40, 18, 165
INNER = {f"checkpoint/{form}" for form in ("formats", "gguf", "onnx", "pickles")}
MOST_LINES_OF_THE_PACKAGE, MOST_LINES_OF_TESTS = 28_000, 37_250
"""They only fall: lower them whenever there are fewer lines."""

ELSEWHERE = {
    "action.py": "tests/action has a file for each part of it",
    "cli/__main__.py": "runs the command, as tests of the command do in a process of their own",
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


@functools.cache
def modules():
    """Every module with its syntax tree."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def nodes(*kinds):
    """Every node of the package of some kinds, with the path of its module in the package."""
    for path, tree in modules().items():
        yield from ((path.relative_to(PACKAGE).as_posix(), node) for node in ast.walk(tree) if isinstance(node, kinds))


def test_every_module_has_a_test_file_of_its_own_name_or_a_reason():
    names = [path.relative_to(PACKAGE) for path in modules() if path.name != "__init__.py"]
    tests = {name: ROOT / "tests" / name.parent / f"test_{name.stem}.py" for name in names}
    missing = {str(module) for module, test in tests.items() if not test.exists()}
    assert missing - ELSEWHERE.keys() == set(), "write their tests, or say in ELSEWHERE where they are"
    assert ELSEWHERE.keys() - missing == set(), "take these out of ELSEWHERE: they have tests, or are gone"


def lines_below(folder):
    return {file: len(file.read_text("utf-8").splitlines()) for file in (ROOT / folder).rglob("*.py")}


def test_neither_the_package_nor_its_tests_grow_and_files_have_a_few_screens():
    lengths = lines_below("hf_lineage")
    assert sum(lengths.values()) <= MOST_LINES_OF_THE_PACKAGE
    assert sum(lines_below("tests").values()) <= MOST_LINES_OF_TESTS
    assert len(lengths) <= MOST_FILES
    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_longer_than_a_screen():
    """Without its decorators, which list options of a command."""
    functions = list(nodes(ast.FunctionDef, ast.AsyncFunctionDef))
    assert len(functions) > 500
    assert [
        (file, node.name) for file, node in functions if node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ] == []


NO_PARTICIPLES = {"_need", "embed", "observed", "seed", "undeclared", "verified"}
"""Names that only look like participles, and adjectives that docs/reference.md and statistics have."""
IRREGULAR = {"beside", "built", "chosen", "drawn", "given", "held", "kept", "known", "left", "lost", "made", "seen"}


def test_no_function_or_class_is_named_by_a_bare_participle():
    names = [
        (file, node.name) for file, node in nodes(ast.FunctionDef, ast.ClassDef) if node.name not in NO_PARTICIPLES
    ]
    words = [(file, name, name.strip("_").lower()) for file, name in names]
    bare = [each for each in words if each[2] in IRREGULAR or (each[2].endswith("ed") and "_" not in each[2])]
    assert bare == [], "name a function by a verb and its noun, a class by a noun"


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
    assert {file for file, node in nodes(ast.Call) if opens(node)} == OPENING.keys()


def test_the_listing_of_each_folder_fits_on_a_page():
    folders = {file.parent for file in PACKAGE.rglob("*.py")}  # where a folder was moved, its bytecode stays
    counts = {folder.relative_to(PACKAGE).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MOST_ENTRIES} == {}
    assert {name for name in counts if "/" in name} == INNER, "no folder stands in a folder but these"


def test_modules_are_imported_by_their_own_names():
    """A name is imported from the module that defines it, and a folder offers nothing by itself but its modules."""
    named = {"hf_lineage", "cli", "report"}
    folders = {path: tree for path, tree in modules().items() if path.name == "__init__.py"}
    assert [path for path, tree in folders.items() if path.parent.name not in named and len(tree.body) > 1] == []
