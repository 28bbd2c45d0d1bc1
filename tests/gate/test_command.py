"""`tianji-bench gate` on toy repositories: verdicts, files, refusals, and that nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest
from commands import processes_told, refusal
from toy_repositories import COMMAND, commit, git, line, made, worktrees

from gate.__main__ import main
from programs.cli import run
from suites import __main__ as suites
from suites.statistics import comparison

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    """Checkouts are made in it, and must be gone."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield
    assert list(place.iterdir()) == []


@pytest.fixture
def repository(tmp_path):
    """The base, a head that is a quarter slower, and another whose throughput is a quarter higher."""
    before = f"{line()}\nsome other output\n{line('throughput', 100.0, 'things/s', 'higher')}\n"
    slower = before.replace('"value": 1.0', '"value": 1.25')
    return made(tmp_path / "with space" / "toy", base=before, slower=slower, quicker=before.replace("100.0", "125.0"))


def gate(repository, *arguments, command=COMMAND):
    return run("gate", main, [f"--repo={repository}", "--turns=1", *map(str, arguments), "--", *command])


def complaint(capsys, repository, *arguments, command=COMMAND):
    capsys.readouterr()
    assert gate(repository, *arguments, command=command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert worktrees(repository) == 1
    return said


def test_a_slower_head_fails_and_every_file_says_so(repository, tmp_path, capsys):
    files = {kind: tmp_path / f"told.{kind}" for kind in ("json", "junit", "markdown", "comment")}
    wanted = [f"--{kind}={file}" for kind, file in files.items()]
    assert gate(repository, "--base=base", "--head=slower", "--name=speed", f"--out={tmp_path / 'out'}", *wanted) == 1
    out = capsys.readouterr().out
    assert f"base: base ({git(repository, 'rev-parse', 'base')[:12]})" in out
    assert "4 rounds: worse: latency" in out
    told = json.loads(files["json"].read_text())
    assert told["verdict"] == "worse"
    assert {one["metric"]: (one["verdict"], one["change"]) for one in told["lines"]} == {
        "latency": ("worse", "1.25x slower"),
        "throughput": ("equivalent", "not significantly different"),
    }
    assert told["mean_change"] == "1.12x slower", "the root of 1.25"
    suite = ET.fromstring(files["junit"].read_text())
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["latency"]
    comment = files["comment"].read_text()
    assert comment.startswith("<!-- tianji-bench gate: speed -->\n### ❌ Regression check: worse: `latency`\n")
    assert "| `latency` | WORSE | 1.25x slower |" in comment
    assert comment.endswith(files["markdown"].read_text())
    assert (tmp_path / "out" / "gate.xml").read_text() == files["junit"].read_text()
    found = comparison.read(tmp_path / "out")
    assert found.environments["head"]["git_commit"] == git(repository, "rev-parse", "slower")
    assert "packages" not in found.environments["head"], "those of the gate are not those of the commands"
    assert (tmp_path / "out" / "logs" / "round-001-01-head.out").read_text().startswith('{"metric": "latency"')
    assert worktrees(repository) == 1


def test_a_better_head_passes(repository, capsys):
    assert gate(repository, "--base=base", "--head=quicker") == 0
    assert "1.25x faster" in capsys.readouterr().out
    assert gate(repository, "--base=slower", "--head=base") == 0


def test_the_working_tree_is_taken_as_it_is_and_not_touched(repository, tmp_path, capsys):
    git(repository, "checkout", "-q", "slower")
    (repository / ".git" / "info" / "exclude").write_text("ignored\n")
    (repository / "ignored").write_text("")
    (repository / "metrics").write_text(line(value=2.0))
    (repository / "new").write_text("")
    before = git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")
    # Fails where the new file is missing, or one that git ignores is there: both only in the head.
    script = "cat metrics; if grep -q 2.0 metrics; then test -e new && test ! -e ignored; fi"
    assert gate(repository, "--base=base", f"--json={tmp_path / 'j'}", command=("sh", "-c", script)) == 1
    out = capsys.readouterr().out
    assert f"head: working tree ({before[1][:12]}, 2 changed files)" in out
    assert "not compared: throughput: only the base reports it" in out
    told = json.loads((tmp_path / "j").read_text())
    assert told["lines"][0]["change"] == "2.00x slower"
    assert told["environments"]["head"]["git_dirty"] is True
    assert (git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")) == before


def test_the_command_runs_in_the_folder_that_was_named_after_its_set_up(repository, capsys):
    git(repository, "checkout", "-q", "base")
    (repository / "part").mkdir()
    commit(repository, "with-part", **{"part/metrics": line()})
    setup = "cp metrics prepared; pwd"
    assert gate(repository / "part", "--base=with-part", f"--setup={setup}", command=("cat", "prepared")) == 0
    assert "both are the same commit" in capsys.readouterr().out
    assert "has no folder part/" in complaint(capsys, repository / "part", "--base=base")
    assert "the base, --setup: ended with status 3: alas" in complaint(
        capsys, repository, "--base=base", "--setup=echo alas >&2; exit 3"
    )


def test_time_and_pytest_benchmark_are_metrics_too(repository, tmp_path, capsys):
    assert gate(repository, "--base=base", "--head=base", "--time", "--size=.9", command=("true",)) == 0
    assert "wall-clock time" in capsys.readouterr().out
    told = json.dumps({"benchmarks": [{"fullname": "test_x.py::test_y[1|2]", "stats": {"median": 0.5, "min": 0.1}}]})
    commit(repository, "benchmarks", written=told)
    wanted = ("--base=benchmarks", "--head=benchmarks", "--pytest-benchmark=made.json", f"--markdown={tmp_path / 'm'}")
    assert gate(repository, *wanted, command=("cp", "written", "made.json")) == 0
    assert "| <code>test&#95;x.py::test&#95;y&#91;1&#124;2&#93;</code> | within 5% |" in (tmp_path / "m").read_text()
    assert " 0.5 | 0.5 | `s`" in (tmp_path / "m").read_text()
    assert "wrote no made.json" in complaint(capsys, repository, *wanted[:3], command=("true",))


ONCE = "cat metrics; if [ $(basename $PWD) = base ]; then rm metrics; fi"


@pytest.mark.parametrize(
    ("more", "command", "says"),
    [
        ((), ("echo", "hello"), "the base, warm-up 1: no metrics; expected lines on standard output like"),
        ((), ("sh", "-c", "echo oh no >&2; exit 3"), "the base, warm-up 1: ended with status 3: oh no"),
        ((), ("sh", "-c", "kill -9 $$"), "ended with signal SIGKILL: it printed nothing"),
        ((), ("/nowhere/program",), "/nowhere/program: No such file or directory"),
        (("--timeout=.05",), ("sleep", "60"), "did not end within 0.05 s"),
        ((), ("echo", line(value=0.0)), "'latency' is 0: ratios need values above 0"),
        ((), ("echo", '{"metric": "x", "value": 1}'), "is no metric: Object missing required field `better`"),
        ((), ("sh", "-c", 'sed "s/latency/$(basename $PWD)/;/throughput/d" metrics'), "the two sides have no metric in common"),
        (("--warm-ups=0",), ("sh", "-c", ONCE), "the base, round 2, run 1: ended with status 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_told_in_one_line_and_in_the_files(repository, tmp_path, capsys, more, command, says):
    files = [f"--{kind}={tmp_path / kind}" for kind in ("junit", "comment")]
    assert says in complaint(capsys, repository, "--base=base", "--head=slower", *more, *files, command=command)
    assert ET.parse(tmp_path / "junit").getroot().get("errors") == "1"
    assert "could not be compared" in (tmp_path / "comment").read_text()


def test_a_head_that_fails_is_named(repository, capsys):
    commit(repository, "broken", metrics="")
    assert "the head, warm-up 1: no metrics" in complaint(capsys, repository, "--base=base", "--head=broken")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--base=nowhere",), "--base nowhere: the repository has no such revision"),
        (("--base=--help",), "--base --help: the repository has no such revision"),
        (("--base=base", "--most=2"), "--most 2: give a number from 3"),
        (("--base=base", "--size=7"), "--size 7: size 7"),
        (("--base=base", "--turns=0"), "--turns 0"),
        (("--base=base", "--timeout=nan"), "--timeout nan: give seconds above 0"),
        (("--base=base", "--name=a b"), "--name a b: give up to 40"),
        (("--base=base", "--pytest-benchmark=../x"), "give a path below"),
        (("--base=base", "--junit=/nowhere/x"), "--junit /nowhere/x: its folder does not exist"),
        (("--base=base", f"--out={ROOT}"), "exists; name a new folder"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(repository, capsys, more, says):
    assert says in complaint(capsys, repository, *more)


def test_places_without_a_repository_are_refused(tmp_path, capsys):
    assert "there is no such folder" in refusal(capsys, gate, tmp_path / "nowhere", "--base=x")
    assert "is not in the working tree of a git repository" in refusal(capsys, gate, tmp_path, "--base=x")


def test_a_shallow_clone_is_told_what_to_do(repository, tmp_path, capsys):
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
    said = complaint(capsys, tmp_path / "shallow", "--base=base")
    assert "this clone is shallow: run `git fetch --unshallow`, or set fetch-depth: 0" in said


def test_variables_that_lead_to_other_code_do_not_reach_the_command(repository, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    command = ("sh", "-c", 'test -z "$PYTHONPATH$GIT_DIR" && cat metrics')
    assert gate(repository, "--base=base", "--head=base", command=command) == 0


def test_it_is_a_command_of_the_benchmark(repository, capsys):
    command = ["sh", "-c", 'test "$1" = -- && test "$2" = --base && cat metrics', "sh", "--", "--base"]
    arguments = ["gate", f"--repo={repository}", "--base=base", "--head=slower", "--turns=1", "--", *command]
    assert run("tianji-bench", suites.main, arguments) == 1
    assert "worse: latency" in capsys.readouterr().out


STRAYS = """
trap '' TERM
setsid sleep 600 &
sleep 600 &
touch "{started}"
wait
"""


def test_ctrl_c_leaves_no_process_and_no_checkout(repository, tmp_path):
    own, started = tmp_path / "own", tmp_path / "started"
    own.mkdir()
    script = STRAYS.format(started=started)
    command = [sys.executable, "-m", "gate", f"--repo={repository}", "--base=base", "--", "sh", "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(own)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        deadline = time.monotonic() + 60
        while not started.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "gate: interrupted\n")
    assert psutil.wait_procs(processes_told(str(own)), timeout=5)[1] == []
    assert list(own.iterdir()) == []
    assert worktrees(repository) == 1


def test_the_gate_needs_only_its_requirements(repository):
    """Not what the project trains and draws with."""
    blocked = ("torch", "ray", "gymnasium", "zmq", "matplotlib", "pyarrow", "tianji", "baselines")
    begin = f"import sys\nsys.modules.update(dict.fromkeys({blocked!r}))\n"
    program = f"{begin}from gate.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    arguments = [f"--repo={repository}", "--base=base", "--head=base", "--turns=1", "--", *COMMAND]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
