"""The notebook's cells, run in their order as a notebook program would."""

import json
import re
import shutil
from pathlib import Path

import matplotlib
import pytest
from elsewhere import ROOT

NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


@pytest.fixture
def pictures():
    """matplotlib without a screen or figures of other tests; its figures are closed afterwards."""
    with matplotlib.rc_context({"backend": "agg"}):
        from matplotlib import pyplot

        pyplot.close("all")
        yield pyplot
        pyplot.close("all")


@pytest.mark.long(why="a notebook of whole runs")
def test_its_cells_run_and_draw_curves(monkeypatch, capsys, pictures):
    monkeypatch.chdir(NOTEBOOK.parent)
    names = {}
    try:
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    finally:
        shutil.rmtree(names["run"].parent)
    # Whole rounds of 1,024 steps.
    assert "19,456 steps" in capsys.readouterr().out
    # As many returns as episodes, and their mean is what the result says of the last hundred.
    assert len(names["returns"]) == names["result"].episodes
    assert names["curve"].tail(100).mean() == pytest.approx(names["result"].mean_return)
    trained, measured = (pictures.figure(number).axes[0] for number in pictures.get_fignums())
    assert [len(line.get_xdata()) for line in trained.lines] == [len(names["returns"])] * 2
    assert {line.get_label() for line in measured.lines} == {"rllib", "sb3", "sync", "tianji", "xingtian"}
    assert all(line.get_ydata().max() > 400 for line in measured.lines)


def test_its_outputs_are_stripped():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


def test_its_links_lead_somewhere():
    text = "".join(line for cell in json.loads(NOTEBOOK.read_text())["cells"] for line in cell["source"])
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all(Path(NOTEBOOK.parent, link).exists() for link in links)
