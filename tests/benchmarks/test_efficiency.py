"""The efficiency benchmark: counted work was done, both sides do the same work, and nothing is left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest
from commands import processes_told, refusal
from scipy import stats

from benchmarks.efficiency import __main__ as efficiency
from benchmarks.efficiency import bare, cases, processes, system
from benchmarks.efficiency.cases import Cell, Window
from benchmarks.efficiency.cell import measure
from programs.cli import ConfigError, run
from suites.components import work
from tianji.launch.events import RoleFailed
from tianji.topology import chunk_layout

PPO, DQN = "cartpole-ppo-zoo", "cartpole-dqn-zoo"


def cell(part, side, workload, seconds=0.2, seed=3):
    return Cell(part, side, workload, efficiency.CORES[part], seed, 0.05, seconds)


def told(part, side, workload):
    return measure(cell(part, side, workload), lambda: None)


def test_a_window_lies_between_two_looks():
    window = Window(warmup_s=1.0, seconds=2.0)
    looks = [(5.0, 3), (5.9, 10), (6.2, 20), (7.0, 30), (8.1, 41), (8.3, 50), (99.0, 1000)]
    over = [window.see(round(at * 1e9), total) for at, total in looks]
    assert over == [False] * 5 + [True, True]
    result = window.result()
    assert result["count"] == 50 - 20
    assert result["seconds"] == pytest.approx(8.3 - 6.2)
    assert result["per_second"] == pytest.approx(30 / 2.1)


def test_a_window_in_which_nothing_happened_has_no_rate():
    window = Window(warmup_s=0.0, seconds=1.0)
    window.see(0, 7)
    with pytest.raises(RuntimeError, match="more seconds"):
        window.result()


@pytest.mark.parametrize("workload", [PPO, DQN])
def test_bare_sampling_takes_the_steps_that_an_actor_takes(workload):
    config, describe = cases.configuration("sampling", workload, 1, seed=3)
    chunks = work.record(config, describe, 0)
    loop = bare.Sampling(config, describe)
    for chunk in chunks:
        assert loop.fragment() == chunk.count
        ends_with = chunk_layout(config, describe).views(chunk.memory)["observation"][-1]
        assert np.array_equal(loop.observation, ends_with)
    loop.close()


@pytest.mark.parametrize("workload", [PPO, DQN])
def test_the_policy_stays_while_updates_are_made(workload):
    config, describe = cases.configuration("learning", workload, 2, seed=3)
    loop = work.Learning(config, describe)
    before = loop.algorithm.updater.weights().copy()
    assert loop.round() == config.round_updates
    after = loop.algorithm.updater.weights()
    assert not np.array_equal(after, before), "nothing was computed"
    np.testing.assert_allclose(after, before, atol=1e-8)


@pytest.mark.parametrize("workload", [PPO, DQN])
def test_sampling(workload):
    config, _ = cases.configuration("sampling", workload, 1, seed=3)
    loop, actor = told("sampling", "bare", workload), told("sampling", "system", workload)
    for rate in (loop["sampling"], actor["sampling"]):
        assert rate["count"] > 0
        assert rate["count"] % config.chunk_samples == 0
        assert rate["seconds"] >= 0.2
    consumed = actor["consumed"]
    assert consumed["steps"] == consumed["chunks"] * config.chunk_samples >= actor["sampling"]["count"]
    assert consumed["lost"] == consumed["duplicated"] == 0
    counters = actor["roles"]["actor g0.a0"]["counters"]
    # What was under way when it was over did not come.
    assert consumed["chunks"] <= counters["chunks_produced"] <= consumed["chunks"] + config.chunk_slots


@pytest.mark.long(why="whole runs of a benchmark")
@pytest.mark.parametrize("workload", [PPO, DQN])
def test_learning(workload):
    config, _ = cases.configuration("learning", workload, 2, seed=3)
    loop, learner = told("learning", "bare", workload), told("learning", "system", workload)
    for rate in (loop["learning"], learner["learning"]):
        assert rate["count"] > 0
        assert rate["count"] % config.round_updates == 0
    assert set(learner["roles"]) == {"learner g0", "buffer g0"}
    counters = learner["roles"]["learner g0"]["counters"]
    assert counters["optimizer_steps"] >= learner["learning"]["count"]
    assert counters["chunks_lost"] == counters["chunks_duplicated"] == 0
    assert counters["steps"] % config.round_steps == 0


@pytest.mark.long(why="whole runs of a benchmark")
@pytest.mark.parametrize("workload", [PPO, DQN])
def test_both_at_once(workload):
    config, _ = cases.configuration("both", workload, 1, seed=3)
    complete = told("both", "system", workload)
    assert complete["sampling"]["count"] > 0
    assert complete["sampling"]["count"] % config.chunk_samples == 0
    assert complete["learning"]["count"] > 0
    assert complete["learning"]["count"] % config.round_updates == 0
    assert set(complete["roles"]) == {"learner g0", "buffer g0", "actor g0.a0"}
    assert complete["roles"]["learner g0"]["counters"]["chunks_lost"] == 0


def test_a_role_that_fails_is_told_of_and_takes_the_stand_in_along(monkeypatch):
    config, describe = cases.configuration("sampling", PPO, 1, seed=3)
    monkeypatch.setattr(system, "LocalAssignment", lambda *_: {"not": "an assignment"})
    with pytest.raises(RoleFailed, match=r"actor g0\.a0 ended"):
        system.sampling(config, describe, Window(0.0, 0.2))


def test_both_bare_loops_stand_side_by_side():
    cells = [cell(part, "bare", PPO) for part in efficiency.BARE["both"]]
    rates = processes.fresh(cells)
    assert rates["sampling"]["per_second"] > 0
    assert rates["learning"]["per_second"] > 0


def test_a_cell_that_fails_is_told_of():
    with pytest.raises(processes.CellFailed, match="unknown workload 'cartpole-ppo-zo'; did you mean cartpole-ppo-zoo"):
        processes.fresh([cell("sampling", "bare", "cartpole-ppo-zo")])


def test_a_block_turns_its_order_and_forms_its_ratios_within(monkeypatch):
    rates = {"bare": {"sampling": 100.0, "learning": 10.0}, "system": {"sampling": 90.0, "learning": 8.0}}

    def pretend(cells):
        side = rates[cells[0].side]
        parts = {"sampling", "learning"} if cells[0].part == "both" else {c.part for c in cells}
        return {part: {"per_second": side[part]} for part in parts}

    monkeypatch.setattr(efficiency, "fresh", pretend)
    blocks = [efficiency.block("both", PPO, n, 0.1, 0.1, floor=False) for n in range(2)]
    assert [b["order"] for b in blocks] == [["bare", "system"], ["system", "bare"]]
    assert blocks[0]["ratios"] == {"system": pytest.approx({"mean": 0.85, "sampling": 0.9, "learning": 0.8})}
    turned = [efficiency.block("sampling", PPO, n, 0.1, 0.1, floor=True) for n in range(3)]
    assert sorted(b["order"][0] for b in turned) == ["again", "bare", "system"]
    assert turned[0]["ratios"] == {"system": {"sampling": 0.9}, "again": {"sampling": 1.0}}


def test_the_interval_is_that_of_a_paired_t_test():
    bare_rates, system_rates = np.random.default_rng(0).uniform(1, 2, (2, 8))
    test = stats.ttest_rel(np.log(system_rates), np.log(bare_rates)).confidence_interval(0.95)
    value, low, high = efficiency.geometric_mean(list(system_rates / bare_rates))
    assert value == pytest.approx(stats.gmean(system_rates / bare_rates))
    assert (low, high) == pytest.approx((np.exp(test.low), np.exp(test.high)))
    assert efficiency.geometric_mean([0.5, 2.0]) == (pytest.approx(1.0), None, None)


def test_a_file_of_figures_is_shown_again(capsys, tmp_path):
    def block(number, system):
        told = {"bare": {"sampling": {"per_second": 100.0}}, "system": {"sampling": {"per_second": system}}}
        return {"part": "sampling", "workload": "w", "block": number, "ratios": {"system": {"sampling": system / 100}}, **told}

    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"blocks": [block(0, 50.0), block(1, 200.0)]}))
    assert efficiency.main(["--show", str(path)]) == 0
    assert capsys.readouterr().out == "sampling, w: sampling 1.000; n = 2; medians 100 bare and 125 steps/s\n"


def test_every_block_is_kept_with_what_it_was_measured_on(capsys, tmp_path):
    file = tmp_path / "out.json"
    arguments = ["--parts", "sampling", "--workloads", PPO, "--blocks", "1", "--seconds", ".1", "--warmup", "0"]
    assert run("efficiency", efficiency.main, [*arguments, "--json", str(file)]) == 0
    kept = json.loads(file.read_text())
    assert kept["environment"]["cpu_count"] == os.cpu_count()
    (block,) = kept["blocks"]
    ratio = block["system"]["sampling"]["per_second"] / block["bare"]["sampling"]["per_second"]
    assert block["ratios"]["system"]["sampling"] == pytest.approx(ratio)
    assert re.search(rf"sampling, {PPO}: sampling {ratio:.3f}; n = 1; medians ", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--parts", "sampling,lerning"], "unknown part 'lerning'; known: sampling, learning, both"),
        (["--workloads", "pong42-ppo"], "unknown workload 'pong42-ppo'; known: cartpole-dqn-zoo"),
        (["--blocks", "0"], "--blocks must be at least 1"),
        (["--seconds", "0"], "--seconds more than 0"),
        (["--show", "pyproject.toml"], "--show pyproject.toml: not a file that --json wrote"),
        (["--warmup", "-1"], "--warmup not negative"),
    ],
)
def test_bad_input_gets_one_line(capsys, arguments, says):
    assert says in refusal(capsys, lambda *given: run("efficiency", efficiency.main, list(given)), *arguments)


def commands_of(folder):
    """Words of the commands of all processes that were told this folder."""
    words = []
    for process in processes_told(folder):
        with suppress(psutil.NoSuchProcess):
            words += process.cmdline()
    return words


@pytest.mark.long(why="whole runs of a benchmark")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("part", ["learning", "both"])
def test_whoever_ends_it_leaves_no_process(part, sent):
    command = [sys.executable, "-m", "benchmarks.efficiency", "--parts", part, "--workloads", PPO, "--seconds", "1"]
    with tempfile.TemporaryDirectory(prefix="tj") as folder:
        # In a session of its own, of which the first process alone is told.
        started = subprocess.Popen(
            [*command, "--blocks", "1000"],
            cwd=processes.ROOT,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": folder},
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 60
            while not any("tianji.worlds.real" in command for command in commands_of(folder)):
                assert started.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            started.send_signal(sent)
            _, err = started.communicate(timeout=40)
            deadline = time.monotonic() + 20
            while left := processes_told(folder):
                assert time.monotonic() < deadline, f"left behind: {left}"
                time.sleep(0.05)
            if sent == signal.SIGKILL:
                assert started.returncode == -signal.SIGKILL
            else:
                assert started.returncode == 130
                assert b"efficiency: interrupted" in err
                assert os.listdir(folder) == []
        finally:
            started.kill()
            started.wait()
            for process in processes_told(folder):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def test_what_a_gpu_is_needed_for_is_left_out_by_name(capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(efficiency, "WORKLOADS", {"learning": (PPO, "pong84-ppo")})
    assert efficiency.workloads(None) == [PPO]
    assert "pong84-ppo is left out: workload pong84-ppo: its updates are for a GPU" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="no CUDA device here"):
        efficiency.workloads("pong84-ppo")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert efficiency.workloads("pong84-ppo") == ["pong84-ppo"]
    assert cases.configuration("learning", "pong84-ppo", 1, seed=0)[0].device == "cuda"
