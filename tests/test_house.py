"""The house: a test file for every module, small files, short functions, and a listing that fits on a page."""

import ast
import functools
import graphlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hf_lineage"
MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_ENTRIES, MOST_OF_A_LIST = 250, 40, 12, 20
LISTS = {".", "checkpoint/formats", "cli", "report/findings", "report/formats"}
"""Folders that hold a list of like things."""
MOST_LINES_OF_THE_PACKAGE, MOST_LINES_OF_TESTS = 39_313, 54_717
"""They only fall: lower them whenever there are fewer lines."""

ENTRY = "runs the command, as tests of the command do in a process of their own"
ELSEWHERE = {
    "action/__main__.py": ENTRY,
    "cli/__main__.py": ENTRY,
    "running/executed/request.py": "tests/running/executed/test_worker.py asks for all of it",
    "signature/sources/origin.py": "tests/report/words/test_wording.py says each of them in words",
}
"""Modules without a test file of their own name, and where their tests are instead."""

OPENING = {
    "files/atomic.py": "writes",
    "files/regular.py": "reads",
    "files/tensor_file.py": "fills a file that has no name",
    "cli/__init__.py": "opens the null device",
    "cli/surroundings.py": "opens the null device",
    "checking/source/run.py": "writes the folder that a process which runs a model sees",
    "running/executed/worker.py": "opens its own standard output",
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


def stands(path):
    """Whether this is a file, or a folder with one: where a folder was moved, the bytecode stays behind."""
    return path.is_file() or any(file.is_file() for file in path.rglob("*") if file.parent.name != "__pycache__")


def entries(folder):
    """What a reader of a folder sees; its face, `__init__.py` with the list of names beside it, is one entry."""
    return sorted({path.name.replace("__init__.pyi", "__init__.py") for path in filter(stands, folder.iterdir())})


def test_the_listing_of_each_folder_fits_on_a_page():
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    counts = {folder.relative_to(PACKAGE).as_posix(): len(entries(folder)) for folder in folders}
    full = {name for name, count in counts.items() if count > (MOST_OF_A_LIST if name in LISTS else MOST_ENTRIES)}
    assert full == set()
    assert [name for name in entries(PACKAGE) if "." in name] == ["__init__.py", "errors.py", "py.typed"]


def dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in PACKAGE.rglob("*.py")}
FOLDERS = {name for name, path in MODULES.items() if path.name == "__init__.py"}


@functools.cache
def imports(path):
    """What a file imports of the package: (module, name, whether for types only) of `from module import name`.

    What it takes of a face that it imports whole is imported when it is used, so that it can be in no circle either.
    """
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    typing = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    idle = {inner for node in typing for inner in ast.walk(node)}
    found = [
        (node.module, alias, node in idle)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hf_lineage")
        for alias in node.names
    ]
    whole = {
        alias.asname or alias.name: face for source, alias, _ in found if (face := f"{source}.{alias.name}") in FOLDERS
    }
    taken = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    late = [(whole[node.value.id], node.attr, True) for node in taken if node.value.id in whole]
    return [*((source, alias.name, typing) for source, alias, typing in found), *late]


def within(module, folder):
    return f"{module}.".startswith(f"{folder}.")


def test_what_stands_in_another_folder_is_imported_through_the_face_of_that_folder():
    """Inside a folder, and in the folders below it, its modules are imported by themselves."""
    past = [
        f"{module} imports {name} from {source}"
        for module, path in MODULES.items()
        for source, name, _ in imports(path)
        if source not in FOLDERS
        and (folder := source.rpartition(".")[0]) != "hf_lineage"
        and not within(module, folder)
    ]
    assert past == []


def offered(folder):
    """The names that a face offers, each with the module that it is taken from."""
    stub = MODULES[folder].with_suffix(".pyi")
    nodes = ast.parse(stub.read_text("utf-8")).body if stub.exists() else []
    return {
        alias.name: f"{folder}.{node.module or alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_a_face_offers_what_other_folders_import_and_nothing_else():
    for folder in FOLDERS - {"hf_lineage"}:
        asked = {
            name
            for module, path in MODULES.items()
            for source, name, _ in imports(path)
            if source == folder and not within(module, folder) and f"{folder}.{name}" not in FOLDERS
        }
        own = {name for name in asked if name not in offered(folder) and name in MODULES[folder].read_text("utf-8")}
        assert asked - own == offered(folder).keys(), f"{folder}: run `make faces`"
        # Of a name that is also that of a module beside it, whichever is imported first would be what others get.
        children = {path.stem for path in MODULES[folder].parent.iterdir()}
        assert [n for n, home in offered(folder).items() if n in children and home != f"{folder}.{n}"] == []


def test_there_is_no_circle_of_imports():
    homes = {(folder, name): home for folder in FOLDERS for name, home in offered(folder).items()}

    def home(source, name):
        inner = f"{source}.{name}"
        return inner if inner in MODULES else homes.get((source, name), source)

    graph = {
        module: {home(source, name) for source, name, typing in imports(path) if not typing}
        for module, path in MODULES.items()
    }
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(MODULES)
