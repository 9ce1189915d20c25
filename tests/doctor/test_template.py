"""The doctor says what is adapted for the configured model's chat template."""

from __future__ import annotations

from pathlib import Path

from chatcli.doctor import checkup
from tests.support import tiny

NO_SYSTEM = (
    "{%- if messages[0].role == 'system' %}{{- raise_exception('No system!') }}{%- endif %}" + tiny.OPEN_THINK
)


def test_what_is_adapted_for_a_template_is_said(tmp_path: Path) -> None:
    folder = tiny.write_model(tmp_path / "model", "qwen3", template=NO_SYSTEM)
    _, finding = checkup.model(str(folder), False)
    assert ("chat template", "ok") == (finding.name, finding.status)
    assert "the system prompt goes before the first question" in finding.data["adapted"]
    assert "does not show tools" in finding.value


def test_nothing_is_said_of_a_model_that_is_not_here(tmp_path: Path) -> None:
    assert ["model"] == [finding.name for finding in checkup.model(str(tmp_path / "none"), False)]
    folder = tiny.write_model(tmp_path / "model", "qwen3")
    assert ["model"] == [finding.name for finding in checkup.model(str(folder), True)]
