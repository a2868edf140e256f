"""Which messages the sources can print, and whether a sentence quoted in the docs is one of them.

The sources put a message together from pieces, `text("stage ", 3, " of ", 5)` or an f-string, and the docs write names
and numbers of their own in between. So we read a file as its string literals, in order, with a gap where code stands
between two of them, and find a quotation where its fixed words stand in these literals, in order and close together.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).parents if (folder / "mkdocs.yml").exists())
GAP = "\0"
_NEAR = 500  # characters of literals that a jump over code, or a name in the quotation, may skip

_CPP = re.compile(
    r'//[^\n]*|/\*.*?\*/|#include[^\n]*|\'(?:\\.|[^\'\\\n])\'|R"\((?P<raw>.*?)\)"|"(?P<text>(?:\\.|[^"\\\n])*)"', re.S
)
# What stands for something else in a quotation: `...`, a name like node_1 or rank_1, a number, a letter like N.
_STANDS_FOR = re.compile(r"\.\.\.|\b(?:node|rank)_\w+|-?\b\d+(?:\.\d+)*\b|\b[A-Z]\b")


def cpp_literals(source: str) -> str:
    """The string literals of a C++ file, with a gap between those that the compiler does not join."""
    parts, end = [], 0
    for found in _CPP.finditer(source):
        literal = found["raw"] if found["raw"] is not None else found["text"]
        if literal is None:
            continue
        if source[end : found.start()].strip():
            parts.append(GAP)
        parts.append(literal.replace('\\"', '"').replace("\\n", " "))
        end = found.end()
    return "".join(parts) + GAP


class _PythonLiterals(ast.NodeVisitor):
    def __init__(self):
        self.parts = []

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.parts += [node.value, GAP]

    def visit_JoinedStr(self, node):
        for value in node.values:
            if isinstance(value, ast.Constant):
                self.parts.append(value.value)
            else:
                self.parts.append(GAP)
                self.visit(value)
        self.parts.append(GAP)

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):  # a docstring is not printed
            self.generic_visit(node)


def python_literals(source: str) -> str:
    visitor = _PythonLiterals()
    visitor.visit(ast.parse(source))
    return "".join(visitor.parts)


@cache
def literals() -> dict[Path, str]:
    """Path -> the literals of that file, for all that users run."""
    read = {".py": python_literals, ".cpp": cpp_literals, ".h": cpp_literals}
    paths = [path for top in ("src", "cli", "python") for path in sorted((ROOT / top).rglob("*"))]
    sources = [path for path in paths if path.suffix in read and not path.stem.endswith(("_test", "_fuzz", "testing"))]
    return {path: re.sub(r"\s+", " ", GAP + read[path.suffix](path.read_text())) for path in sources}


def pieces(quotation: str) -> list[str]:
    """The fixed words of a quotation, between what stands for names and numbers."""
    found = (piece.strip() for piece in _STANDS_FOR.split(quotation))
    return [piece for piece in found if re.search(r"\w", piece)]


def _after(literal: str, at: int, piece: str) -> int | None:
    """Where `piece` ends that begins at `at`; it may go on behind a gap, in another literal nearby."""
    for index, letter in enumerate(piece):
        if literal[at] == letter:
            at += 1
            continue
        rest = piece[index:].lstrip() if literal[at - 1] == " " else piece[index:]
        if literal[at] != GAP:
            return None
        gaps = (gap for gap in range(at, min(at + _NEAR, len(literal) - 1)) if literal[gap] == GAP)
        return next((end for gap in gaps if (end := _after(literal, gap + 1, rest)) is not None), None)
    return at


def _all_after(literal: str, wanted: list[str], begin: int, limit: int) -> bool:
    if not wanted:
        return True
    starts = (at for at in range(begin, min(limit, len(literal) - 1)) if literal[at] == wanted[0][0])
    ends = (end for at in starts if (end := _after(literal, at, wanted[0])) is not None)
    return any(_all_after(literal, wanted[1:], end, end + _NEAR) for end in ends)


def where_raised(quotation: str) -> Path | None:
    """The file whose literals give the quotation."""
    wanted = pieces(quotation)
    word = max(re.findall(r"\w+", " ".join(wanted)), key=len)
    for path, literal in literals().items():
        if word in literal and _all_after(literal, wanted, 0, len(literal)):
            return path
    return None
