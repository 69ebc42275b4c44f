"""Symbolic sizes: expressions of names, such as "t", "4*t" or "t + 1"."""

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class Linear:
    """The size `factor * name + offset`."""

    name: str
    factor: int = 1
    offset: int = 0

    def size(self, number: int) -> int:
        return self.factor * number + self.offset

    def number(self, size: int) -> int | None:
        """What `name` is when the size is `size`; None when there is no such number."""
        number, rest = divmod(size - self.offset, self.factor)
        return None if rest else number


def linear(expression: str) -> Linear | None:
    """`expression` as a multiple of one name and an offset; None when it is none."""
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return None
    found = _terms(tree)
    if found is None:
        return None
    name, factor, offset = found
    return Linear(name, factor, offset) if name and factor > 0 else None


def _terms(node: ast.expr) -> tuple[str, int, int] | None:
    if isinstance(node, ast.Name):
        return node.id, 1, 0
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return "", 0, node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _terms(node.operand)
        return None if inner is None else (inner[0], -inner[1], -inner[2])
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _terms(node.left), _terms(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Mult) and not (left[0] and right[0]):
        by, of = (left[2], right) if right[0] else (right[2], left)
        return of[0], by * of[1], by * of[2]
    if isinstance(node.op, (ast.Add, ast.Sub)) and (not left[0] or right[0] in ("", left[0])):
        sign = 1 if isinstance(node.op, ast.Add) else -1
        return left[0] or right[0], left[1] + sign * right[1], left[2] + sign * right[2]
    return None
