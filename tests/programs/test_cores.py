"""Quotas of control groups, in trees of files that look like the kernel's."""

import os

import pytest

from programs import cores


@pytest.fixture
def tree(tmp_path):
    """Writes files of a mount, and returns the file that names this process's groups, and the mount."""

    def write(groups, files):
        for name, text in files.items():
            place = tmp_path / "mount" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{text}\n")
        (tmp_path / "cgroup").write_text(groups)
        return tmp_path / "cgroup", tmp_path / "mount"

    return write


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({}, None),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "max 100000"}, None),
        ({"a/b/cpu.max": "20000 100000"}, 0.2),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ({"a/b/cpu.max": "300000 100000", "a/cpu.max": "150000 100000", "cpu.max": "400000 100000"}, 1.5),
        # A container that sees its own group as the mount's top.
        ({"cpu.max": "50000 100000"}, 0.5),
        ({"elsewhere/cpu.max": "50000 100000"}, None),
    ],
)
def test_the_least_quota_of_a_group_and_those_above_it_counts(tree, files, granted):
    assert cores.quota(*tree("0::/a/b\n", files)) == granted


def test_the_first_version_of_control_groups_has_other_files(tree):
    files = {
        "cpu/a/cpu.cfs_quota_us": "-1",
        "cpu/a/cpu.cfs_period_us": "100000",
        "cpu/cpu.cfs_quota_us": "250000",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/a/cpu.cfs_quota_us": "1",
    }
    assert cores.quota(*tree("5:memory:/a\n4:cpu,cpuacct:/a\n1:name=systemd:/a\n", files)) == 2.5


def test_a_machine_without_control_groups_has_no_quota(tmp_path):
    assert cores.quota(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(("granted", "usable"), [(None, 1.0), (0.2, 0.2), (64.0, 1.0)])
def test_affinity_and_quota_both_limit(monkeypatch, granted, usable):
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(cores, "quota", lambda: granted)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores.usable() == usable
    finally:
        os.sched_setaffinity(0, allowed)


def test_libraries_are_not_told_which_kernels_to_take():
    told = dict.fromkeys(cores.KERNELS, "1") | {"OMP_NUM_THREADS": "1", "PATH": "/bin"}
    assert cores.choosing_freely(told) == {"OMP_NUM_THREADS": "1", "PATH": "/bin"}
    assert "OPENBLAS_CORETYPE" in cores.KERNELS
