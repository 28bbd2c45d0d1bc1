"""What a report says of the asynchrony suite: winners and ties, what predictions come to, and which are refused."""

import re
from pathlib import Path

import mapped
import pandas as pd
import pytest

from reports import dataset, front, readme, sessions
from reports.__main__ import main as report
from reports.waiting import Mapped
from suites.asynchrony import analysis, sweep
from suites.asynchrony.sweep import Setting
from suites.records import archive
from suites.records.events import Counter
from suites.records.predictions import freshest

FIXED, OTHER, CALIBRATES = Setting("tail", 8, 3.0, 1.0), Setting("constant", 8, 1.0, 1.0), sweep.CELLS[4]
CONTROL = sweep.CELLS[-1]
RATIOS = dict(zip(sweep.SYSTEMS, (1.0, 2.0, 1.3, 1.6, 2.7, 3.8, 3.9), strict=True))


def measured(cell, system, block):
    """Blocks differ in speed, which all systems share; nothing pays in one cell."""
    speed = 1 + 0.3 * block
    return speed * (RATIOS[system] if cell != OTHER else 1 + 0.02 * (system == "tianji-free"))


def foretold(cell, system):
    """All right but for exactly one round, which is off by a third; in one cell it is said to be the best."""
    return RATIOS[system] * (4 / 3 if system == "tianji-exactly-one-round" else 1.0)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    cells = (FIXED, OTHER, CALIBRATES, CONTROL)
    told = mapped.forecast(foretold, cells, calibrating=(CALIBRATES.workload,))
    return mapped.make(tmp_path_factory.mktemp("asynchrony") / "session", measured, cells, told)


@pytest.fixture(scope="module")
def view(session):
    (found,) = Mapped.all(dataset.load([session]))
    return found


def test_the_winner_is_the_freshest_of_the_leaders(view):
    by_name = {cell.workload: cell for cell in view.cells}
    cell = by_name[FIXED.workload]
    assert cell.fastest.system == "tianji-free"
    # Relaxed is within a tenth of free, and its samples are fresher.
    assert cell.winner.system == "tianji-relaxed"
    assert cell.winner.ratio == pytest.approx(3.8)
    assert (cell.rho, cell.m) == pytest.approx((1.0, 3.0))
    assert cell.tie is False
    assert by_name[OTHER.workload].tie is True
    assert by_name[OTHER.workload].winner.age_rounds == 0
    assert [view.role(one) for one in view.cells] == ["tie", "calibrates", "counts", "control"]


def test_predictions_are_judged_on_held_out_cells(view):
    score = view.score
    assert (score.winners, score.of) == (1, 1)
    # In the fixed cell one of six ratios is off; where nothing pays, all are.
    assert (score.within, score.ratios) == (5, 12)
    assert [str(miss) for miss in score.misses if miss.workload == FIXED.workload] == [
        f"{FIXED.workload}, tianji-exactly-one-round: 1.73 predicted, 1.30 measured"
    ]
    assert analysis.calibration(view.cells, view.predictions) == pytest.approx((3 / 4) ** (1 / 6))
    assert view.sentences[0].startswith("Of 1 held-out cells that are no ties, the winner was predicted exactly in 1")


def test_a_prediction_that_is_younger_than_the_session_is_refused(tmp_path):
    told = mapped.forecast(foretold, (OTHER,), written=1.0)
    folder = mapped.make(tmp_path / "late", measured, (OTHER,), told, blocks=1)
    (view,) = Mapped.all(dataset.load([folder]))
    assert view.predictions is None
    assert view.score is None
    assert "they are refused, because both must come before its first run" in view.sentences[0]
    # A plan that was written after the first run is no plan.
    folder = mapped.make(tmp_path / "plan", measured, (OTHER,), mapped.forecast(foretold, (OTHER,)), planned=1.0, blocks=1)
    (view,) = Mapped.all(dataset.load([folder]))
    assert view.predictions is None


def test_a_session_without_predictions_is_shown_without_a_comparison(tmp_path):
    (view,) = Mapped.all(dataset.load([mapped.make(tmp_path / "none", measured, (FIXED,), blocks=1)]))
    assert view.sentences == ["Session s stated no predictions in its plan, so nothing is compared."]
    assert view.cells[0].tie is None, "there is no interval"
    told = mapped.forecast(foretold, (FIXED,))
    assert analysis.score(view.cells, told).of == 0
    assert analysis.score(view.cells, told).ratios == 6


def test_contended_cells_take_no_part(tmp_path):
    folder = mapped.make(tmp_path / "busy", measured, (FIXED,), mapped.forecast(foretold, (FIXED,)), share=0.8)
    (view,) = Mapped.all(dataset.load([folder]))
    assert view.cells[0].contended
    assert view.cells[0].share == pytest.approx(0.8)
    assert view.score.ratios == view.score.of == 0
    assert view.role(view.cells[0]) == "contended"


def test_the_map_has_a_mark_for_each_cell_with_its_gain(view):
    (control, fixed) = view.panels()
    assert [panel.title for panel in (control, fixed)] == ["2 actors", "8 actors"]
    assert len(control.curves) == 1
    (won,) = [one for one in fixed.curves if one.y == [3.0]]
    assert (won.name, won.x, won.text) == ("relaxed", [0.88], ["3.80x"])
    assert view.panels(fewest=2) == [fixed]


def test_the_readme_tells_what_not_waiting_gains_by_actors_and_the_map_is_drawn_where_cells_are_enough(tmp_path, session):
    cells = sweep.CELLS[: readme.MAP_CELLS]
    assert {cell.actors for cell in cells} == {8}
    data = dataset.load([mapped.make(tmp_path / "more", measured, cells, mapped.forecast(foretold, cells))])
    (told,) = front.waiting(data)
    # OTHER is one of them, in which nothing pays.
    assert (told.actors, told.cells, told.least, told.rules) == (8, len(cells), 1.0, ["barrier", "relaxed"])
    assert told.most == pytest.approx(3.8, abs=0.01)
    assert "| 8 | 1.00x to 3.80x | barrier, relaxed |" in readme.block(data, [], "pictures")
    assert not readme.write_pictures(data, tmp_path), "no two systems were compared"
    assert "map.png" in readme.names(data)
    assert "map.png" not in readme.names(dataset.load([session]))


def test_the_report_has_the_tables(session, tmp_path):
    assert report(["build", str(session), "--out", str(tmp_path)]) == 0
    winners = pd.read_csv(tmp_path / "tables" / "winners.csv").set_index("Cell")
    assert len(winners) == 4
    own = winners.loc[FIXED.workload]
    assert (own["Winner"], own["Predicted winner"], own["Role"]) == ("relaxed", "relaxed", "counts")
    rules = pd.read_csv(tmp_path / "tables" / "rules-by-cell.csv")
    assert len(rules) == 4 * 7
    wrong = rules[(rules["Cell"] == FIXED.workload) & (rules["Rule"] == "exactly-one-round")].iloc[0]
    assert (wrong["Gain"].split("x")[0], wrong["Predicted"]) == ("1.30", 1.73)


def test_groups_are_the_last_rung_beside_a_barrier_of_their_own(tmp_path):
    cells = [FIXED]
    mapped.make(tmp_path / "all" / "map", measured, cells, mapped.forecast(foretold, cells))
    rungs = {"tianji": 1.0, "tianji-relaxed": 3.5, "tianji-grouped": 5.0}
    mapped.make(
        tmp_path / "all" / "groups",
        lambda cell, system, block: (1 + 0.3 * block) * rungs[system],
        cells,
        mapped.forecast(lambda cell, system: rungs[system] + 0.1, cells, systems=tuple(rungs)),
        systems=tuple(rungs),
        session="g",
        suffix="-ladder",
    )
    (view,) = Mapped.all(dataset.load([tmp_path / "all"]))
    assert [cell.workload for cell in view.cells] == [FIXED.workload], "a rung is no cell of the map"
    assert view.score is not None, "each session is compared with its own predictions"
    assert view.gain(FIXED.workload, "tianji-relaxed")["value"] == pytest.approx(3.8), "sessions are not pooled"
    (rules,) = (one.frame for one in view.tables if one.name == "rules-by-cell")
    own = rules[rules["Cell"] == f"{FIXED.workload}-ladder"].set_index("Rule")
    assert own.loc["grouped", "Gain"].startswith("5.00x")
    # In their own session relaxed with one learner has 3.5 times the barrier's throughput.
    assert own.loc["relaxed", "Gain"].startswith("3.50x")


def test_a_session_s_command_names_its_own_cells_and_asks_for_predictions(tmp_path):
    cells = [FIXED, OTHER]
    mapped.make(tmp_path / "all" / "map", measured, cells, mapped.forecast(foretold, cells))
    mapped.make(tmp_path / "all" / "ladder", measured, [FIXED], systems=("tianji",), session="g", suffix="-ladder")
    (view,) = Mapped.all(dataset.load([tmp_path / "all"]))
    ladder_s, map_s = (source.command for source in sessions.sources(view))
    assert f"--workloads {','.join(sorted(cell.workload for cell in cells))} " in map_s
    assert "--predictions FILE" in map_s
    assert f"--workloads {FIXED.workload} " in ladder_s, "without the suffix, which the profile gives"
    assert "--predictions" not in ladder_s


def test_a_split_is_no_cell_of_the_map_and_is_shown(tmp_path):
    cells = [cell for cell in sweep.SPLITS if cell.split.serial == 0.1]
    rates = {4: 2.0, 2: 1.8}
    folder = mapped.make(
        tmp_path / "split",
        lambda cell, system, block: (1 + 0.3 * block) * rates.get(cell.actors, 1.0) * (3.0 if system != "tianji" else 1.0),
        cells,
        blocks=2,
    )
    (view,) = Mapped.all(dataset.load([folder]))
    assert view.cells == []
    assert view.panels() == []
    (rules,) = (one.frame for one in view.tables if one.name == "rules-by-cell")
    assert set(rules["Cell"]) == {cell.workload for cell in cells}
    assert all(gain.startswith("3.00x") for gain in rules[rules["Rule"] == "relaxed"]["Gain"])


def test_what_auto_chose_stands_beside_the_rules_it_chose_among(tmp_path):
    cell = sweep.FRESH[0]
    rules = dict(zip(sweep.CANDIDATES, (1.0, 1.1, 1.9, 2.0), strict=True))
    chooses = {"tianji-auto": "relaxed", "tianji-auto-priced": "exactly_one_round"}
    own = {"tianji-auto": 1.9, "tianji-auto-priced": 1.7}

    def chose(cell, system, block):
        if system not in chooses:
            return []
        price = 0.2 if "priced" in system else 0.0
        return [Counter(0, f"chosen_{chooses[system]}", 1.0), Counter(0, "choice_price", price)]

    folder = mapped.make(
        tmp_path / "auto",
        lambda cell, system, block: (1 + 0.3 * block) * (rules | own)[system],
        [cell],
        blocks=2,
        systems=(*sweep.CANDIDATES, *sweep.AUTO),
        more=chose,
    )
    (view,) = Mapped.all(dataset.load([folder]))
    assert view.cells == [], "it is no cell of the map"
    (rules,) = (one.frame.set_index("Rule") for one in view.tables if one.name == "rules-by-cell")
    plain, priced = rules.loc["auto"], rules.loc["auto-priced"]
    assert (plain["Chose"], priced["Chose"]) == ("relaxed", "exactly-one-round")
    assert plain["Over the fastest"].startswith("0.950x")
    assert priced["Over the fastest"].startswith("0.850x")


def test_predictions_are_sealed_with_the_session(session, view, tmp_path):
    archive.seal(session, tmp_path / "sealed.parquet")
    (sealed,) = Mapped.all(dataset.load([tmp_path / "sealed.parquet"]))
    assert sealed.predictions == view.predictions
    assert sealed.score == view.score


def test_of_equally_fresh_leaders_the_first_wins():
    assert freshest([("b", 1.2), ("c", 0.9), ("d", 0.2), ("a", 0.6)]) == "d"
    assert freshest([("b", 0.6), ("c", 0.2)]) == "b"


def sealed(kind, *sessions):
    """A table of these sealed sessions."""
    folder = Path(__file__).parents[2] / "results" / "reference" / "asynchrony"
    (view,) = Mapped.all(dataset.load([folder / f"{name}.parquet" for name in sessions]))
    return next(one.frame for one in view.tables if one.name == kind).astype(str)


@pytest.mark.long(why="a whole report is built")
def test_the_document_s_times_to_the_return_are_those_of_the_sealed_session():
    """The page turns times over the barrier's into speed-ups, so ends of an interval change places."""
    root = Path(__file__).parents[2] / "docs"
    rows = re.findall(
        r"^\| `(\S+)` \| .* \| (\S+)x \[(\S+), (\S+)\] \| (\S+)x \| (\S+x \[.*\]) \|$",
        (root / "when-asynchrony-pays.md").read_text(),
        re.MULTILINE,
    )
    table = sealed("returns", "confirm-first", "confirm-second")
    relaxed = table[table["Rule"] == "relaxed"].set_index("Cell")
    assert len(rows) == len(relaxed) == 4
    for cell, *speedups, _, steps in rows:
        own = relaxed.loc[f"cartpole-ppo-{cell}-to-return"]
        value, low, high = (float(one) for one in re.findall(r"[\d.]+", own["Over the barrier's"]))
        assert [float(one) for one in speedups] == pytest.approx([1 / value, 1 / high, 1 / low], rel=0.02)
        assert own["Over the barrier's steps"] == steps
