"""Every sentence that the program can print, as the source has it, one a line.

python -m tests.support.sentences > tests/sentences.txt
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests import ROOT

PACKAGE = ROOT / "chatcli"
FIXTURE = ROOT / "tests" / "sentences.txt"
# Two words in a row, or one word that is a sentence of its own.
PROSE = re.compile(r"[^\W\d_]{2,}[,;:]? [^\W\d_]|^[A-Z][a-z]+[.…]$")
# Calls whose text goes to a parser and to no person.
PARSERS = {"compile", "sub", "match", "search", "fullmatch", "findall", "split", "finditer"}


def sentences(source: str) -> Iterator[str]:
    """The prose among a module's strings, in their order; what is filled in stands as `{…}`."""
    tree = ast.parse(source)
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) in PARSERS:
            silent |= {id(argument) for argument in node.args}
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values]
            text = "".join(parts)
        if PROSE.search(text):
            yield text.strip().replace("\n", "\\n")


def listing() -> str:
    """All of them by module, sorted, each once."""
    blocks = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if lines := sorted(set(sentences(path.read_text(encoding="utf-8")))):
            blocks.append("\n".join([f"== {path.relative_to(PACKAGE).as_posix()}", *lines]))
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    print(listing(), end="")
