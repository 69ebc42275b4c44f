"""Python modules that the user names, since they define operators of their own."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from lemurc.errors import UsageError


def import_modules(names: Iterable[str]) -> None:
    """Import each: `my_ops`, `my_package.ops`, or a file, `my_ops.py`.

    Modules are looked for in the current folder too, as `python -m` does. Raises UsageError
    for what cannot be imported.
    """
    for name in names:
        try:
            if name.endswith(".py"):
                _run_file(Path(name))
            else:
                _import(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(name, error) from error
            raise UsageError(
                f"there is no Python module {name!r}",
                code="import-not-found",
                where=f"--import {name}",
                hint="install it, put its folder on PYTHONPATH, or name its file: --import ops.py",
            ) from error
        except UsageError:
            raise
        except Exception as error:
            raise _failed(name, error) from error


def _import(name: str) -> None:
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        importlib.import_module(name)
    finally:
        sys.path.remove(here)


def _run_file(path: Path) -> None:
    """Once: a library of operators cannot be defined twice."""
    loaded = sys.modules.get(path.stem)
    if loaded is not None and _same(getattr(loaded, "__file__", None), path):
        return
    if not path.is_file():
        raise UsageError(
            f"there is no file {str(path)!r}",
            code="import-not-found",
            where=f"--import {path}",
            hint=f"paths are relative to {Path.cwd()}",
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def _same(loaded: str | None, path: Path) -> bool:
    return loaded is not None and Path(loaded).resolve() == path.resolve()


def _failed(name: str, error: Exception) -> UsageError:
    return UsageError(
        f"importing {name!r} failed with {type(error).__name__}: {error}",
        code="import-raised",
        where=f"--import {name}",
        hint="mend that module; `lemurc --debug ...` shows the whole traceback",
    )
