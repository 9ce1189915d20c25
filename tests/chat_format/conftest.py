"""Templates with their tokenizers."""

from __future__ import annotations

import pytest

from tests.support.templates import Templates


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("tokenizers"))
