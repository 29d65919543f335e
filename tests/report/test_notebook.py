"""The notebook is its script, and runs from top to bottom on the committed results."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

from harness.config import ROOT

SCRIPT, NOTEBOOK = ROOT / "notebooks" / "paper.py", ROOT / "notebooks" / "paper.ipynb"


def sources(path: Path) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]


def test_notebook_and_script_are_the_same() -> None:
    assert sources(SCRIPT) == sources(NOTEBOOK), "jupytext --sync notebooks/paper.py"


def test_the_notebook_runs_on_the_committed_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the kernel's, where nothing is installed
    book = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(book, timeout=300, kernel_name="python3", resources=place).execute()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert "0 runs" not in code[0].outputs[0].text
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
    assert not any(output.output_type == "error" for output in outputs)
