"""Machines: their description, their key, and their noise."""

import msgspec

from suites.records import machine

HERE = {"cpu_model": "Abacus", "cpu_usable": 2, "cpu_quota_cores": None, "memory_bytes": 24 << 30, "kernel": "6.1.0-a1"}


def test_a_manifest_is_plain_data_that_says_what_was_measured_on():
    found = machine.manifest()
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    assert {"cpu_model", "cpu_usable", "memory_bytes", "kernel", "virtualised", "date", "git_commit"} <= set(found)
    assert machine.key(found) == machine.key(machine.manifest())


def test_a_name_says_more_where_it_would_not_be_enough():
    larger, later = HERE | {"memory_bytes": 48 << 30}, HERE | {"kernel": "6.2.0-a1"}
    rebuilt, other = HERE | {"kernel": "6.1.0-b7"}, HERE | {"cpu_model": "Slide rule", "cpu_usable": 1}
    assert machine.names([HERE, rebuilt, other]) == {
        machine.key(HERE): "2 cores of Abacus",
        machine.key(other): "1 core of Slide rule",
    }
    assert list(machine.names([HERE, larger, later]).values()) == [
        "2 cores of Abacus, 24 GiB, kernel 6.1.0",
        "2 cores of Abacus, 48 GiB, kernel 6.1.0",
        "2 cores of Abacus, 24 GiB, kernel 6.2.0",
    ]


def test_a_gpu_makes_another_machine_of_it():
    fast = HERE | {"gpus": ["Slate 100", "Slate 100"], "gpu_driver": "1.2"}
    assert list(machine.names([HERE, fast]).values()) == ["2 cores of Abacus", "2 cores of Abacus and 2 Slate 100"]


def test_gpus_are_those_that_the_driver_s_program_lists(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "gpus" not in machine.manifest()
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'Slate 100, with a comma, 580.1'\n")
    program.chmod(0o755)
    found = machine.manifest()
    assert (found["gpus"], found["gpu_driver"]) == (["Slate 100, with a comma"], "580.1")
    program.write_text("#!/bin/sh\necho 'no driver is loaded' >&2; exit 9\n")
    assert "gpus" not in machine.manifest()


def test_the_noise_floor_is_a_share():
    assert 0 < machine.noise_floor() < 1
