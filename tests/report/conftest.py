"""Browser tests are heavy and need Chromium: they run only when asked for (`pytest -m browser`)."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "browser" in (config.getoption("-m") or ""):
        return
    heavy = [item for item in items if item.get_closest_marker("browser")]
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item not in heavy]
