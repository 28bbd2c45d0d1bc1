"""Every pipe, through the runner: it moves the right bytes, and wrong bytes are detected."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import report_pages
from commands import processes_told, refusal
from guests import install

from programs.cli import run
from reports.__main__ import main as report
from suites.__main__ import main
from suites.records import bundle
from suites.records.events import Delays, Transfer
from suites.testbed import local, netns
from suites.transmission import run as suite
from suites.transmission import sweep
from suites.transmission.traffic import Extent

KIB = 1 << 10
SIZES = (KIB, 64 * KIB, 1 << 20)
ONE_HOST = ("tianji", "xingtian", "mp-queue", "pyzmq", "memcpy", "raw-tcp", "tcp-kept", "libzmq")
TWO_HOSTS = ("tianji", "tianji-curve", "pyzmq", "raw-tcp", "tcp-kept", "libzmq", "libzmq-curve")
REASON = netns.unavailable()
needs_rights = pytest.mark.skipif(REASON is not None, reason=f"no hosts can be emulated: {REASON}")

GUESTS = '''
import os, time
from contextlib import contextmanager
import numpy as np
from suites.transmission.pipe import Pipe, Samples, payload
from suites.transmission.crew import Crew, CrewSamples, Explorer, sending


class Honest(Pipe):
    """Moves nothing at all, but has the right bytes."""

    name, title = "honest", "Honest"

    @contextmanager
    def samples(self, size_bytes):
        class Here(Samples):
            def begin(self, each):
                self.left = each

            def receive(self):
                self.left -= 1
                return [self.body]

            def round_trips(self, number):
                return [1000 * n for n in range(1, number + 1)]

        here = Here()
        here.body = payload(size_bytes)
        yield here

    def weights(self, size_bytes):
        raise NotImplementedError


class Wrong(Honest):
    name, title = "wrong", "Wrong"

    @contextmanager
    def samples(self, size_bytes):
        with super().samples(size_bytes) as here:
            here.body[-1] += 1
            yield here


class Dies(Honest):
    name, title = "dies", "Dies"

    @contextmanager
    def samples(self, size_bytes):
        def lost(number=1):
            raise RuntimeError("the wheel came off")

        def explorer(number, address):
            yield Explorer(lost, lost)

        with Crew(self.setting, sending(explorer)) as crew:
            crew.direct("")
            crew.wait_ready()
            yield CrewSamples(crew, size_bytes, receive=lambda: time.sleep(600))


class Vanishes(Dies):
    name, title = "vanishes", "Vanishes"

    @contextmanager
    def samples(self, size_bytes):
        with super().samples(size_bytes) as end:
            os.kill(end.crew._processes[0].pid, 9)
            yield end


class Stuck(Honest):
    name, title = "stuck", "Stuck"

    def start(self):
        time.sleep(600)


class Away(Honest):
    name, title = "away", "Away"

    @classmethod
    def available(cls):
        return "its package is not installed"
'''


@pytest.fixture
def guests(tmp_path, monkeypatch):
    """The pipes above, installed."""
    names = ("Honest", "Wrong", "Dies", "Vanishes", "Stuck", "Away")
    install(tmp_path, monkeypatch, "tianji_bench.pipes", "guest_pipes", GUESTS, names)


@pytest.fixture
def tiny(monkeypatch):
    """A profile that is over in a moment."""

    def profile(workloads, explorers=(1, 3), sizes=SIZES):
        extent = Extent(sizes=sizes, explorers=explorers, window_s=0.05, trips=8)
        made = sweep.Profile(extents=dict.fromkeys(workloads, (extent,)), systems=("tianji",), blocks=1, twice="tianji")
        monkeypatch.setitem(sweep.PROFILES, "tiny", made)

    return profile


def bench(*arguments):
    # Other tests keep the machine busy.
    return run("tianji-bench", main, ["run", "transmission", "--profile", "tiny", "--busy", *map(str, arguments)])


def read(out):
    return [bundle.read(path) for path in bundle.find([out])]


def check(cells, sizes=SIZES):
    """Every size was measured, by figures that can be."""
    for cell in cells:
        assert cell.manifest.status == "completed", cell.manifest.error
        moved = [event for event in cell.events if isinstance(event, Transfer)]
        assert [event.size_bytes for event in moved] == list(sizes)
        for event in moved:
            # A process that got no core all the while finds the smallest messages of a window there at once.
            assert event.intervals > 0 or event.size_bytes == sizes[0]
            assert 0 <= event.intervals <= event.messages
            assert event.seconds > 0
            assert event.cpu_s > 0
        delays = [event for event in cell.events if isinstance(event, Delays)]
        kinds = {"samples": "round_trip", "weights": "broadcast"}
        assert {event.kind for event in delays} <= {kinds[cell.manifest.configuration["workload"]["direction"]]}
        crowd = cell.manifest.workload.startswith("samples") and cell.manifest.explorers > 1
        assert len(delays) == (0 if crowd else len(sizes))
        for event in delays:
            assert len(event.percentiles_ns) == 101
            assert event.percentiles_ns == sorted(event.percentiles_ns)
            assert event.percentiles_ns[0] > 0


@pytest.mark.long(why="each pipe moves messages between processes for a while")
@pytest.mark.parametrize("pipes", [ONE_HOST[::2], ONE_HOST[1::2]], ids=["even", "odd"])
@pytest.mark.parametrize("direction", ["samples", "weights"])
def test_pipes_on_one_host(tiny, tmp_path, direction, pipes):
    counts = (1, 3) if direction == "samples" else (3,)
    tiny([direction], explorers=counts)
    assert bench("--systems", ",".join(pipes), "--out", tmp_path / "out") == 0
    cells = read(tmp_path / "out")
    assert {(c.manifest.system, c.manifest.explorers) for c in cells} == {(name, n) for name in pipes for n in counts}
    assert {c.manifest.testbed for c in cells} == {"local"}
    check(cells)
    for cell in cells:
        for event in cell.events:
            if isinstance(event, Transfer) and event.tcp_bytes is not None:
                per_byte = event.tcp_bytes / (event.messages * event.size_bytes)
                # All of it where TCP carries it, and next to nothing where it does not.
                assert (1 <= per_byte < 1.01) if "tcp" in cell.manifest.system else per_byte < 0.01


@pytest.mark.long(why="each pipe moves messages between processes for a while")
@pytest.mark.timeout(240)
@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("direction", ["samples", "weights"])
def test_rays_object_store(tiny, tmp_path, direction):
    pytest.importorskip("ray")
    # Beside TianJi, which is then what runs twice: starting Ray takes ten seconds.
    tiny([direction], explorers=(2,))
    assert bench("--systems", "tianji,ray-store", "--out", tmp_path / "out") == 0
    cells = read(tmp_path / "out")
    assert sorted(c.manifest.system for c in cells) == ["ray-store", "tianji", "tianji"]
    check(cells)


@pytest.mark.long(why="each pipe moves messages between processes for a while")
@needs_rights
@pytest.mark.timeout(240)
@pytest.mark.parametrize("workload", ["samples-2hosts", "weights-2hosts-1gbit"])
def test_pipes_between_two_hosts(tiny, tmp_path, workload):
    tiny([workload], explorers=(2,), sizes=(KIB, 256 * KIB))
    assert bench("--systems", ",".join(TWO_HOSTS), "--out", tmp_path / "out") == 0
    cells = read(tmp_path / "out")
    check(cells, (KIB, 256 * KIB))
    assert {(c.manifest.testbed, c.manifest.nodes) for c in cells} == {("netns", 2)}
    carried = {
        c.manifest.system: event.tcp_bytes / (event.messages * event.size_bytes)
        for c in cells
        for event in c.events
        if isinstance(event, Transfer) and event.size_bytes == 256 * KIB
    }
    # All bytes cross the network, and encryption is on and adds its overhead.
    assert all(1 <= value < 1.02 for value in carried.values()), carried
    assert carried["tianji-curve"] > carried["tianji"]


@pytest.mark.long(why="each pipe moves messages between processes for a while")
@needs_rights
@pytest.mark.timeout(240)
@pytest.mark.xdist_group("ray")
def test_ray_on_two_hosts(tiny, tmp_path):
    pytest.importorskip("ray")
    tiny(["samples-2hosts"], explorers=(1,), sizes=(KIB, 1 << 20))
    assert bench("--systems", "tianji,ray-store", "--out", tmp_path / "out") == 0
    cells = read(tmp_path / "out")
    assert sorted(c.manifest.system for c in cells) == ["ray-store", "tianji", "tianji"]
    check(cells, (KIB, 1 << 20))
    assert all(e.tcp_bytes > e.messages * e.size_bytes for c in cells for e in c.events if isinstance(e, Transfer))


@pytest.mark.long(why="each pipe moves messages between processes for a while")
def test_a_report_of_a_guest_alone(guests, tiny, tmp_path):
    """Neither the ceiling nor TianJi was measured: what there is is shown, and one of the pipes failed everywhere."""
    tiny(["samples"], explorers=(1,), sizes=(KIB, 4 * KIB))
    assert bench("--systems", "honest,wrong", "--out", tmp_path / "out") == 1
    assert run("tianji-report", report, ["build", str(tmp_path / "out"), "--out", str(tmp_path / "report")]) == 0
    assert '"title":"samples, 1 explorer"' in (tmp_path / "report" / "charts" / "messages.js").read_text()
    page = report_pages.read(tmp_path / "report")
    assert "Runs that failed" in page
    assert "other bytes" in page
    rows = json.loads((tmp_path / "report" / "summary.json").read_text())["rows"]
    assert {row["system"] for row in rows} == {"honest", "honest-again"}
    assert {row["baseline"] for row in rows} == {None}


@pytest.mark.long(why="each pipe moves messages between processes for a while")
def test_what_cannot_run_here_is_skipped_by_name(capsys, guests, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(netns, "unavailable", lambda: "no right to emulate hosts (of this test)")
    tiny(["samples", "samples-2hosts"], explorers=(1,))
    assert bench("--systems", "honest,away,tianji-curve", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().err
    assert "skipped: away: its package is not installed" in said
    assert "skipped: samples-2hosts: no right to emulate hosts (of this test)" in said
    assert "skipped: tianji-curve in samples: it is for netns only" in said
    assert {c.manifest.system for c in read(tmp_path / "out")} == {"honest"}
    refused = refusal(capsys, bench, "--systems", "honest", "--workloads", "samples-2hosts", "--out", tmp_path / "no")
    assert "nothing is left to run" in refused
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--systems", "tianji,pyzqm"], "did you mean pyzmq"),
        (["--workloads", "sample"], "known: samples"),
        (["--testbed", "ray"], "known: local, netns"),
        (["--systems", "mp-queue", "--testbed", "netns"], "nothing is left to run"),
    ],
)
def test_bad_input_gets_one_line_and_writes_nothing(capsys, tiny, tmp_path, arguments, says):
    tiny(["samples"])
    assert says in refusal(capsys, bench, *arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.long(why="each pipe moves messages between processes for a while")
@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("wrong", "other bytes"),
        ("dies", "explorer 0: RuntimeError: the wheel came off"),
        ("vanishes", "explorer 0 ended, exit status -9"),
        ("stuck", "its time was over"),
    ],
)
def test_a_pipe_that_fails_is_found_out_and_ended(guests, tiny, tmp_path, monkeypatch, name, because):
    monkeypatch.setattr(local, "SETUP_LIMIT_S", 3.0)
    monkeypatch.setattr(local, "TEARDOWN_LIMIT_S", 0.0)
    monkeypatch.setattr(suite, "LIMIT_S", 0.0 if name == "stuck" else 60.0)
    tiny(["samples"], explorers=(1,), sizes=(KIB,))
    assert bench("--systems", name, "--out", tmp_path / "out") == 1
    for cell in read(tmp_path / "out"):
        assert cell.manifest.status == "failed"
        assert because in cell.manifest.error
        assert str(tmp_path) not in (cell.path / "bundle.json").read_text()


@pytest.mark.long(why="each pipe moves messages between processes for a while")
def test_the_meter_counts_what_it_is_given(guests, tiny, tmp_path):
    """A pipe of known delays: 1, 2, ..., 8 microseconds."""
    tiny(["samples"], explorers=(1,), sizes=(KIB,))
    assert bench("--systems", "honest", "--out", tmp_path / "out") == 0
    for cell in read(tmp_path / "out"):
        (moved,) = [e for e in cell.events if isinstance(e, Transfer)]
        assert moved.intervals == moved.messages - 1
        (delays,) = [e for e in cell.events if isinstance(e, Delays)]
        assert delays.count == 8
        assert (delays.percentiles_ns[0], delays.percentiles_ns[50], delays.percentiles_ns[100]) == (1000, 4000, 8000)


@pytest.mark.long(why="each pipe moves messages between processes for a while")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_leaves_nothing(guests, tmp_path, sent):
    out = tmp_path / "out"
    folder = tempfile.mkdtemp(prefix="t-", dir="/tmp")
    command = ["-m", "suites", "run", "transmission", "--systems", "tianji", "--workloads", "samples", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": folder},
    )
    deadline = time.monotonic() + 60
    while not any(b'"transfer"' in path.read_bytes() for path in out.glob("*.partial/events.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < deadline
    os.kill(process.pid, sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if sent == signal.SIGKILL else 130), err
    assert "Traceback" not in err

    while left := processes_told(folder):
        assert time.monotonic() < deadline, left
    assert not list(Path(folder).iterdir())
    Path(folder).rmdir()


@pytest.mark.long(why="each pipe moves messages between processes for a while")
def test_a_session_is_resumed(guests, tiny, tmp_path, capsys):
    tiny(["samples"], explorers=(1, 2), sizes=(KIB,))
    arguments = ["--systems", "honest", "--out", tmp_path / "out"]
    assert bench(*arguments) == 0
    cells = bundle.find([tmp_path / "out"])
    stamps = {cell: (cell / "bundle.json").stat().st_mtime_ns for cell in cells}
    lost = cells[0]
    lost.rename(lost.with_name(lost.name + ".partial"))
    assert bench(*arguments, "--resume") == 0
    # The block of the lost cell is run again whole, the other number of explorers is another block.
    again = {cell for cell in cells if (cell / "bundle.json").stat().st_mtime_ns != stamps[cell]}
    assert again == {cell for cell in cells if cell.name.startswith(lost.name.rpartition(".p")[0])}
    tiny(["samples"], explorers=(1, 2), sizes=(4 * KIB,))
    capsys.readouterr()
    assert "was begun with" in refusal(capsys, bench, *arguments, "--resume")


def test_two_suites_are_two_sessions(capsys, tmp_path):
    refused = refusal(
        capsys, run, "tianji-bench", main, ["run", "convergence", "transmission", "--resume", "--out", str(tmp_path / "o")]
    )
    assert "nothing to resume" in refused
    assert not (tmp_path / "o").exists()


def test_list_names_every_pipe(capsys):
    assert run("tianji-bench", main, ["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["suites"]["transmission"]
    assert set(sweep.SYSTEMS) <= set(listed["systems"])
    assert set(listed["workloads"]) == set(sweep.WORKLOADS)
