"""What the recipes show is what the sources say; what they link to exists."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
RECIPES = ["adding-a-pass.md", "adding-a-target.md"]


def load_quotes() -> Any:
    spec = importlib.util.spec_from_file_location("quotes", ROOT / "docs" / "quotes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", RECIPES)
def test_quotations_are_current(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page == load_quotes().refresh(page), "run python docs/quotes.py"


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_show_no_python_that_is_not_quoted(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    quoted = [block for block in load_quotes().BLOCK.findall(page) if block[2] == "python"]
    assert page.count("```python\n") == len(quoted) > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
