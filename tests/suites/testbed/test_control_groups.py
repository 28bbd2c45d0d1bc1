"""Control groups: quotas and accounts compared with a process's own clock, leftovers, and the set-up of version 2."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suites.testbed import control_groups
from suites.testbed.busy import busy
from suites.testbed.control_groups import ControlGroups, Group, Hierarchy, Used, leftovers
from tianji.launch.node import Node


def _why_not():
    try:
        with ControlGroups() as groups:
            groups.create("trial").limit(0.5)
    except OSError as error:
        return f"no right to make control groups: {error}"
    return None


REASON = _why_not()
needs_groups = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def share(group, seconds):
    """Cores that a group uses for so long."""
    begun, before = time.monotonic(), group.used().cpu_s
    time.sleep(seconds)
    return (group.used().cpu_s - before) / (time.monotonic() - begun)


@needs_groups
def test_a_quota_holds_from_when_it_is_given_until_it_is_taken():
    with ControlGroups() as groups:
        groups.weigh(control_groups.MOST)
        group = groups.create("busy")
        with busy([Node("", None, group.folders)]) as begin:
            begin()
            assert share(group, 0.3) > 0.5
            group.limit(0.2)
            before = group.used().throttled_s
            assert share(group, 0.5) == pytest.approx(0.2, rel=0.1)
            # 0.8 of the time, for which one process would have run.
            assert 0.2 < group.used().throttled_s - before < 0.6
            group.limit(None)
            assert share(group, 0.3) > 0.5


@needs_groups
def test_what_is_left_in_a_group_ends_with_it_but_not_its_owner():
    with ControlGroups() as groups:
        group = groups.create("some")
        node = Node("", None, group.folders)
        with node.popen(["sleep", "60"]) as process:
            node.enter()
            assert group.processes() == sorted([process.pid, os.getpid()])
            groups.__exit__()
            assert process.wait(5) == -9
    assert not any(Path(folder).exists() for folder in group.folders)
    assert group.name.partition("/")[0] not in Path("/proc/self/cgroup").read_text()


@needs_groups
def test_a_killed_owners_groups_are_removed_by_the_next_start_and_those_of_the_living_are_not():
    code = """
import signal
from suites.testbed.control_groups import ControlGroups
from tianji.launch.node import Node
with ControlGroups() as groups:
    group = groups.create("some")
    left = Node("", None, group.folders).popen(["sleep", "60"])
    print(*group.folders, left.pid, flush=True)
    signal.pause()
"""
    hierarchy = Hierarchy.find()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        *folders, left = owner.stdout.readline().split()
        with ControlGroups():
            assert all(Path(folder).is_dir() for folder in folders)
        owner.kill()
        owner.wait(5)
        assert Path(folders[0]).parent.name in leftovers(hierarchy)
        with ControlGroups():
            assert not any(Path(folder).exists() for folder in folders)
    assert has_ended(int(left))


def has_ended(pid):
    """Its new parent may not have asked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_version_1_is_found_joined_or_apart(tmp_path):
    mounts = {name: tmp_path / name for name in ("cpu", "cpuacct")}
    for mount in mounts.values():
        mount.mkdir()
    process = tmp_path / "self"
    process.mkdir()
    (process / "cgroup").write_text("3:cpuacct:/\n2:cpu:/\n0::/\n")
    line = "30 23 0:26 / {} rw,nosuid shared:9 - cgroup cgroup rw,{}\n"
    (process / "mountinfo").write_text("".join(line.format(mount, name) for name, mount in mounts.items()))
    apart = Hierarchy.find(process)
    assert apart == Hierarchy(1, mounts["cpu"], mounts["cpuacct"])
    assert Group(apart, "a/b").folders == (f"{tmp_path}/cpu/a/b", f"{tmp_path}/cpuacct/a/b")
    (process / "mountinfo").write_text(line.format(mounts["cpu"], "cpu,cpuacct"))
    assert Group(Hierarchy.find(process), "a/b").folders == (f"{tmp_path}/cpu/a/b",)
    (process / "mountinfo").write_text(line.format(mounts["cpu"], "memory"))
    with pytest.raises(PermissionError, match="no control groups"):
        Hierarchy.find(process)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A folder that looks like version 2's: new folders have a group's files, and go with them."""
    mkdir = Path.mkdir
    files = {"cgroup.procs": "", "cgroup.subtree_control": "", "cpu.max": "max 100000", "cpu.weight": "100"}

    def make(self, *arguments, **options):
        mkdir(self, *arguments, **options)
        for name, text in files.items():
            (self / name).write_text(text)

    root = tmp_path / "cgroup"
    process = tmp_path / "self"
    mkdir(process)
    (process / "cgroup").write_text("0::/mine\n")
    (process / "mountinfo").write_text(f"30 23 0:26 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n")
    monkeypatch.setattr(Path, "mkdir", make)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu io memory")
    return Hierarchy.find(process)


def test_version_2_is_told_of_its_controller_its_quota_and_its_weight(fake):
    assert fake.version == 2
    with ControlGroups(fake) as groups:
        group = groups.create("node1")
        (folder,) = map(Path, group.folders)
        assert (fake.cpu / "cgroup.subtree_control").read_text() == "+cpu"
        assert (folder.parent / "cgroup.subtree_control").read_text() == "+cpu"
        # In a container what is mounted may be a group with processes; the machine's top one is not asked to move any.
        assert not (folder.parent / "others").exists()
        group.limit(0.2)
        assert (folder / "cpu.max").read_text() == "2000 10000"
        # 1 ms is the least quota that there is.
        group.limit(0.05)
        assert (folder / "cpu.max").read_text() == "1000 20000"
        group.limit(1.5)
        assert (folder / "cpu.max").read_text() == "15000 10000"
        group.limit(None)
        assert (folder / "cpu.max").read_text() == "max 10000"
        groups.weigh(9)
        assert (folder.parent / "cpu.weight").read_text() == "900"
        (folder / "cpu.stat").write_text(
            "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\nnr_periods 3\nthrottled_usec 250000\n"
        )
        assert group.used() == Used(1.5, 0.25)
    assert not folder.parent.exists()


def test_version_2_without_a_cpu_controller_is_none(fake):
    (fake.cpu / "cgroup.controllers").write_text("hugetlb")
    with pytest.raises(PermissionError, match="no control groups"):
        Hierarchy.find(fake.cpu.parent / "self")


def unified():
    """Version 2's top and a controller there that can be had."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        top = Path(left.split(" ")[4])
        if right.startswith("cgroup2 ") and os.access(top, os.W_OK) and not (top / "cgroup.type").exists():
            for controller in (top / "cgroup.controllers").read_text().split():
                return top, controller
    return None


@pytest.mark.skipif(unified() is None, reason="no top group of version 2 with a controller that this process may write")
def test_processes_that_are_in_the_way_move_aside_and_come_back():
    top, controller = unified()
    was = controller in (top / "cgroup.subtree_control").read_text().split()
    base = top / f"tianji-test-{os.getpid()}"
    base.mkdir()
    hierarchy = Hierarchy(2, base, base)
    try:
        if not was:
            (top / "cgroup.subtree_control").write_text(f"+{controller}")
        with Node("", None, (str(base),)).popen(["sleep", "60"]) as bystander:
            (base / "owner").mkdir()
            hierarchy.make_room("owner", controller)
            assert control_groups.processes(base) == []
            (base / "owner" / "node1").mkdir()
            assert controller in (base / "owner" / "node1" / "cgroup.controllers").read_text().split()
            with Node("", None, (str(base / "owner" / "node1"),)).popen(["sleep", "60"]) as member:
                hierarchy.remove("owner", controller)
                assert member.wait(5) == -9
            assert bystander.poll() is None
            assert control_groups.processes(base) == [bystander.pid]
            bystander.kill()
            bystander.wait(5)
    finally:
        control_groups._end(base, top)
        control_groups._remove(base)
        if not was:
            (top / "cgroup.subtree_control").write_text(f"-{controller}")
