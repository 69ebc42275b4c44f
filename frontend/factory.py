"""`file.py:factory`: Python of the user's own that builds the model.

def build(): return model
def build(): return model, (x,)
def build(): return model, (x,), {"mask": mask}
def build(): return {"prefill": (model, args), "decode": (model, args)}
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from lemurc.errors import LemurcError, UsageError
from lemurc.frontend.user_code import raising_line, said


def call_factory(path: Path, name: str) -> Any:
    """What `name()` of the file returns; UsageError for whatever the file raises."""
    if not path.is_file():
        raise UsageError(
            f"there is no file {str(path)!r}",
            code="model-not-found",
            hint=f"paths are relative to {Path.cwd()}",
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # the file may import its neighbours, and pickle or dataclasses may look it up
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
        factory = getattr(module, name, None)
        if not callable(factory):
            raise UsageError(
                f"{path.name} has no function {name!r}",
                code="factory-missing",
                hint=f"define {name}() so that it returns (module, example arguments)",
            )
        return factory()
    except LemurcError:
        raise
    except Exception as error:
        raise UsageError(
            f"{path.name}:{name} failed with {said(error)}",
            code="factory-failed",
            where=raising_line(error, path),
            hint=_hint(error),
        ) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))


def _hint(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install what provides the module {error.name!r}, or put it on PYTHONPATH"
    return "mend that line; `lemurc --debug ...` shows the whole traceback"
