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

from lemurc.errors import UsageError


def call_factory(path: Path, name: str) -> Any:
    """What `name()` of the file returns; its own exceptions come out as they are."""
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}", code="model-not-found")
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
    finally:
        sys.path.remove(str(path.parent.resolve()))
