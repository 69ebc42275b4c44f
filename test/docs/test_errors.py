"""docs/errors.md lists every code the sources use, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lemurc import errors

ROOT = Path(__file__).parents[2]
FOLDERS = ("dialects", "frontend", "passes", "runtime", "src/lemurc", "targets", "tools")


def codes(path: Path) -> Iterator[str]:
    """Constants given as `code=...` in a call, and `code = "..."` in a class body."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        elif isinstance(node, ast.ClassDef):
            named = [
                statement.value
                for statement in node.body
                if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value
                if "code" in [ast.unparse(target) for target in _targets(statement)]
            ]
        else:
            continue
        yield from (
            v.value for v in named if isinstance(v, ast.Constant) if isinstance(v.value, str)
        )


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def raised(path: Path) -> Iterator[tuple[str, str]]:
    """(class, code) of each call of a class of `errors` with a constant code, or its own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if not name.endswith("Error") or name == "LemurcError" or not hasattr(errors, name):
            continue
        given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        if not given:
            yield name, getattr(errors, name).code
        elif isinstance(given[0], ast.Constant):
            yield name, given[0].value


USED = {
    code: path.relative_to(ROOT)
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    for code in codes(path)
}
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
DOCUMENTED = re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("code", sorted(USED))
def test_code_is_documented(code: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code), f"{USED[code]}: {code!r}"
    assert code in DOCUMENTED, f"{USED[code]} raises {code!r}: add it to docs/errors.md"


def test_documented_codes_exist() -> None:
    assert sorted(set(DOCUMENTED) - set(USED)) == []
    assert len(DOCUMENTED) == len(set(DOCUMENTED))


def test_exit_statuses_are_documented() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, errors.LemurcError) and kind is not errors.LemurcError:
            assert f"| {kind.exit_status} | `{kind.__name__}` |" in PAGE
            assert f"## {kind.exit_status}: {kind.code}\n" in PAGE


def sections() -> dict[str, int]:
    """The exit status under which the page lists each code."""
    found: dict[str, int] = {}
    status = -1
    for line in PAGE.splitlines():
        if heading := re.match(r"## (\d+):", line):
            status = int(heading[1])
        elif row := re.match(r"\| `([a-z0-9-]+)` \|", line):
            found[row[1]] = status
    return found


def test_codes_are_listed_under_the_status_they_exit_with() -> None:
    listed, wrong = sections(), []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, code in raised(path):
                if listed[code] != getattr(errors, name).exit_status:
                    wrong.append(f"{path.relative_to(ROOT)}: {name} {code}")
    assert wrong == []
