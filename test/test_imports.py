"""Who may import whom (docs/architecture.md), read from the sources, so nothing has to run."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("frontend", "dialects", "passes", "targets", "runtime", "tools")
CORE = {
    "__init__",
    "child",
    "cost_model",
    "errors",
    "explanation",
    "manifest",
    "options",
    "plugins",
    "pytree",
    "sizes",
    "system_file",
    "units",
    "user_modules",
    "verification",
    "weight_slices",
}
"""Single modules of src/lemurc that every part may use."""

ALLOWED = {
    "dialects": set[str](),
    "frontend": {"dialects"},
    "passes": {"dialects"},
    "targets": {"dialects"},
    "runtime": set[str](),
}
"""Other parts each part may import. `tools` and the pipeline in src/lemurc may use all."""

COMPILE_ONLY = {"iree.compiler", "onnx", "ortools", "torch", "torch_mlir"}


def modules(part: str) -> list[Path]:
    return sorted((ROOT / part).rglob("*.py"))


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Dotted names imported by `path`; `top_level` leaves out those inside functions.

    `if TYPE_CHECKING:` blocks count as neither: they import nothing.
    """
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if top_level and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


def starts_with(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("part", ALLOWED)
def test_parts_import_only_what_they_may(part: str) -> None:
    allowed = ALLOWED[part] | CORE | {part}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(part)
        for name in imports(path)
        if starts_with(name, "lemurc")
        and "." in name
        and name.split(".")[1] not in allowed
        # `from lemurc import __version__` and the like name no module
        and not name.split(".")[1].startswith("__")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("part", "forbidden", "top_level"),
    [
        ("runtime", COMPILE_ONLY - {"torch"}, False),
        # a caller who has PyTorch gets tensors back; nobody else must have it
        ("runtime", {"torch"}, True),
        ("tools", COMPILE_ONLY, True),
    ],
)
def test_what_runs_artifacts_needs_no_compiler(
    part: str, forbidden: set[str], top_level: bool
) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(part)
        # tools of the compiler's own
        if not (part == "tools" and path.name.startswith("opt"))
        if path.parent.name != "conformance_cases"
        for name in imports(path, top_level=top_level)
        if any(starts_with(name, package) for package in forbidden)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_needs_neither_parts_nor_compiler() -> None:
    for name in sorted(CORE):
        path = ROOT / "src" / "lemurc" / f"{name}.py"
        for imported in imports(path, top_level=True) if path.exists() else ():
            first, _, rest = imported.partition(".")
            assert first not in {"torch", "torch_mlir", "iree"}, f"{name} imports {imported}"
            assert first != "lemurc" or rest.split(".")[0] in CORE, f"{name} imports {imported}"


def test_no_import_cycles() -> None:
    """A cycle between files makes the order of imports matter, and type checkers see double."""
    paths = {_module(path): path for part in PARTS for path in modules(part)}
    paths |= {_module(path): path for path in (ROOT / "src" / "lemurc").glob("*.py")}
    edges = {
        module: {
            target for name in imports(path, top_level=True) if (target := _known(name, paths))
        }
        for module, path in paths.items()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for target in sorted(edges[module] - {module}):
                visit(target, (*trail, module))
            done.add(module)

    for module in sorted(edges):
        visit(module, ())


def _module(path: Path) -> str:
    relative = path.relative_to(ROOT)
    parts = relative.parts[1:] if relative.parts[0] == "src" else ("lemurc", *relative.parts)
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def _known(name: str, paths: dict[str, Path]) -> str | None:
    """The file behind an imported name: a module, or the module that defines it."""
    if name in paths:
        return name
    parent = name.rpartition(".")[0]
    # importing a package's name is an edge only when the package itself defines it
    return parent if parent in paths and not paths[parent].name.startswith("__init__") else None
