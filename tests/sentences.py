"""Every sentence that the program can print, on one page: `python -m tests.sentences` writes `tests/sentences.md` anew.

The page is there to be read aloud. A placeholder shows an example where its name tells what it holds, else its name.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, PAGE = ROOT / "hf_lineage", Path(__file__).with_suffix(".md")
WORDS = 3
"""A text with fewer words of two letters is a name, a key or a part of a pattern."""
WORD = re.compile(r"(?<![\w`./-])[A-Za-z][a-z']+(?![\w`/-])")
EXAMPLES = {
    **{"name": "acme/llama", "model": "acme/llama-chat", "base": "acme/llama-base", "candidate": "acme/llama-chat"},
    **{"repo": "acme/llama", "path": "mlp", "file": "model.safetensors", "folder": "models/llama", "seed": "0"},
    **{"error": "No such file or directory", "shape": "(64, 256)", "width": "64", "layers": "32", "count": "3"},
    **{"key": "hidden_size", "share": "0.82", "score": "0.954", "low": "0.79", "high": "0.85", "size": "4,096"},
    **{
        "version": "2",
        "form": "json",
        "url": "https://huggingface.co",
        "where": "lineage.yaml, line 3",
        "index": "models",
    },
    **{"tensor": "model.layers.0.mlp.up_proj.weight", "commit": "1a2b3c4", "number": "4", "numbers": "4", "line": "3"},
    **{"layer": "4", "token": "4", "tokens": "4,096", "bits": "4", "option": "--paths", "command": "hf-lineage check"},
}
"""By the last word of what a placeholder holds."""


def constants(tree):
    """Names that a module gives to texts and numbers."""
    return {
        target.id: str(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def example(value, known):
    """What a placeholder is shown as."""
    words = re.findall(r"[A-Za-z_]\w*", ast.unparse(value))
    last = next((word for word in reversed(words) if word in EXAMPLES or word in known), None)
    if last in known:
        return known[last]
    return EXAMPLES.get(last) or f"‹{ast.unparse(value)[:40]}›"


def text_of(node, known):
    """The text of a literal, with examples where values are put in."""
    if isinstance(node, ast.Constant):
        return node.value
    return "".join(part.value if isinstance(part, ast.Constant) else example(part.value, known) for part in node.values)


def is_sentence(text):
    return " " in text.strip() and len(WORD.findall(text)) >= WORDS and "\\b" not in text and "(?" not in text


def sentences(module):
    """The sentences of a module in their order; docstrings are for readers of the code."""
    tree = ast.parse(module.read_text("utf-8"))
    known, nodes = constants(tree), list(ast.walk(tree))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    skipped |= {id(inner) for node in nodes if isinstance(node, ast.JoinedStr) for inner in node.values}
    texts = [node for node in nodes if isinstance(node, ast.JoinedStr) or
             (isinstance(node, ast.Constant) and isinstance(node.value, str))]  # fmt: skip
    places = sorted(
        (node for node in texts if id(node) not in skipped), key=lambda node: (node.lineno, node.col_offset)
    )
    return [" ".join(text.split()) for text in (text_of(node, known) for node in places) if is_sentence(text)]


def printed(template):
    """The sentences of a template in their order, what is put in by its name."""
    text = re.sub(r"{#.*?#}|{%.*?%}|<[^>]*>", "\n", re.sub(r"{{-?(.*?)-?}}", r"‹\1›", template.read_text("utf-8")))
    return [" ".join(line.split()) for line in text.splitlines() if is_sentence(line)]


def catalogue():
    """File -> its sentences, each once on the whole page: one that stands in several files is listed with the first."""
    seen, listed = set(), {}
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".j2"}):
        lines = dict.fromkeys(sentences(path) if path.suffix == ".py" else printed(path))
        if new := [line for line in lines if line not in seen]:
            listed[path.relative_to(PACKAGE).as_posix()] = new
        seen.update(lines)
    return listed


def page():
    """The page as text."""
    blocks = ["# What the program can say", "Written by `python -m tests.sentences`. Read it aloud."]
    for module, lines in catalogue().items():
        blocks += [f"## {module}", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
