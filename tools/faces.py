"""Write the face of every folder of the package: `python -m tools.faces`.

What one folder imports of another goes through the `__init__` of that folder, whose stub lists the names that others
import and the modules that have them; lazy_loader imports each when it is asked for. This program rewrites imports that
reach past a face, and writes every stub anew.

A module may also import a face whole (`from hf_lineage.checkpoint import foreign`): what it takes of it is then
imported when it is first used, which keeps out of a run what the run does not need.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "hf_lineage"
FACE = "\nimport lazy_loader\n\n__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)\n"
Faces = dict[str, dict[str, set[str]]]
"""Folder -> module in it, empty for modules that are offered whole -> names that others import."""


def dotted(path: Path) -> str:
    """Return the name of a module or a folder of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the statements that import from the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and f"{node.module}.".startswith(f"{PACKAGE}."):
            yield node


def attributes(tree: ast.AST, name: str) -> set[str]:
    """Return what a module takes of another one that it has imported whole by this name."""
    taken = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
    return {node.attr for node in taken if isinstance(node.value, ast.Name) and node.value.id == name}


def offered(stub: Path) -> dict[str, str]:
    """Return the names that a stub lists, each with its module."""
    nodes = ast.parse(stub.read_text("utf-8")).body if stub.exists() else []
    statements = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module or "" for node in statements for alias in node.names}


@functools.cache
def names_of(path: Path) -> tuple[set[str], set[str]]:
    """Return the names that a module defines at its top, and those that it imports there."""
    defined: set[str] = set()
    borrowed: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            borrowed |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
    return defined, borrowed


def home(name: str, folder: str, modules: dict[str, Path], usual: str | None) -> str | None:
    """Return the module of a folder that others get a name from, the usual one first; None if the face defines it."""
    children = {module.rpartition(".")[2]: names_of(path) for module, path in modules.items()
                if module.rpartition(".")[0] == folder}  # fmt: skip
    if usual in children and name in set.union(*children[usual]):
        return usual
    return next((module for part in (0, 1) for module, names in children.items() if name in names[part]), None)


def collect(modules: dict[str, Path], folders: set[str]) -> Faces:
    """Rewrite imports that reach past a face, and return what is asked of each face."""
    faces: Faces = defaultdict(lambda: defaultdict(set))
    stubs = {folder: offered(modules[folder].with_suffix(".pyi")) for folder in folders}
    for importer, path in modules.items():
        lines = path.read_text("utf-8").splitlines(keepends=True)
        tree = ast.parse("".join(lines))
        for node in imported(tree):
            source = node.module or ""
            folder = source if source in folders else source.rpartition(".")[0]
            for alias in node.names:
                if (whole := f"{source}.{alias.name}") in folders:
                    for name in attributes(tree, alias.asname or alias.name):
                        if place := home(name, whole, modules, stubs[whole].get(name)):
                            faces[whole][place].add(name)
            if folder == PACKAGE or f"{importer}.".startswith(f"{folder}."):
                continue
            if source not in modules:
                raise SystemExit(f"{path}:{node.lineno}: there is no module {source}")
            for alias in node.names:
                if source != folder:
                    faces[folder][source.rpartition(".")[2]].add(alias.name)
                elif f"{folder}.{alias.name}" in folders:
                    continue
                elif f"{folder}.{alias.name}" in modules:
                    faces[folder][""].add(alias.name)
                elif place := home(alias.name, folder, modules, stubs[folder].get(alias.name)):
                    faces[folder][place].add(alias.name)
            at = node.lineno - 1
            lines[at] = lines[at].replace(f"from {source} import", f"from {folder} import", 1)
        path.write_text("".join(lines), "utf-8")
    return faces


def write(init: Path, names: dict[str, set[str]]) -> None:
    """Write the stub of a face, and into the face what reads it."""
    stub = init.with_suffix(".pyi")
    if not names:
        stub.unlink(missing_ok=True)
        return
    stub.write_text(
        "".join(
            f"from .{module} import {name} as {name}\n" for module in sorted(names) for name in sorted(names[module])
        )
    )
    text = init.read_text("utf-8")
    if "attach_stub" not in text:
        init.write_text(text.rstrip("\n") + "\n" + FACE, "utf-8")


def main() -> None:
    """Write all faces."""
    modules = {dotted(path): path for path in sorted((ROOT / PACKAGE).rglob("*.py"))}
    folders = {name for name, path in modules.items() if path.name == "__init__.py"}
    faces = collect(modules, folders)
    for folder in folders - {PACKAGE}:
        write(modules[folder], faces.get(folder, {}))


if __name__ == "__main__":
    main()
