"""Quotations of live code in the documentation, so that a recipe cannot rot.

    <!-- quote: passes/registry.py find unknown -->

is followed by a code block: the named top-level definitions of that file, or the whole file
when none is named. `python docs/quotes.py` rewrites every block; a test compares them.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- quote: ([^\n]*?) -->\n)```(\w*)\n(.*?)```\n", re.DOTALL)


def quoted(reference: str) -> str:
    """The source text that `reference`, "path name name...", stands for."""
    path, *names = reference.split()
    text = (ROOT / path).read_text(encoding="utf-8")
    if not names:
        return text
    found = {}
    lines = text.splitlines()
    for node in ast.parse(text).body:
        for name in _names(node):
            found[name] = "\n".join(lines[_first_line(node) - 1 : node.end_lineno])
    missing = [name for name in names if name not in found]
    if missing:
        raise KeyError(f"{path} defines no {', '.join(missing)}")
    return "\n\n\n".join(found[name] for name in names) + "\n"


def refresh(page: str) -> str:
    """`page` with every quotation as it stands in the sources."""
    return BLOCK.sub(lambda m: f"{m[1]}```{m[3]}\n{quoted(m[2])}```\n", page)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def pages() -> list[Path]:
    return [page for page in sorted(ROOT.glob("docs/*.md")) if "<!-- quote:" in page.read_text()]


if __name__ == "__main__":
    for page in pages():
        page.write_text(refresh(page.read_text(encoding="utf-8")), encoding="utf-8")
