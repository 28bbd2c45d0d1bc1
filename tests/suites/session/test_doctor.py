"""The `doctor` command: its findings about a machine."""

import math

import numpy as np
import pytest
from scipy import stats

from suites.session import doctor


def manifest(**more):
    usual = {"cpu_usable": 8, "cpu_count": 8, "cpu_quota_cores": None, "cpu_model": "a processor", "memory_bytes": 32 << 30}
    return {**usual, "load_1min_at_start": 0.1, **more}


@pytest.mark.parametrize(
    ("more", "what", "words"),
    [
        ({"cpu_usable": 1}, "cores", "take turns"),
        ({"cpu_quota_cores": 1.5}, "cores", "a quota grants 1.5"),
        ({"memory_bytes": 4 << 30}, "memory", "4.0 GiB"),
        ({"load_1min_at_start": 5.0}, "idle", "noisy"),
    ],
)
def test_what_disturbs_is_said(more, what, words):
    found = {finding.what: finding for finding in doctor.hardware(manifest(**more))}
    assert found[what].state == "careful"
    assert words in found[what].says
    assert all(finding.state == "yes" for name, finding in found.items() if name != what)


def test_the_noise_floor_says_what_five_blocks_tell_apart():
    values = np.random.default_rng(0).normal(0, 0.04, 40)
    told = doctor.judged({"sampling": list(values), "channel-shm": list(values / 2)})
    sd = float(np.std(values, ddof=1))
    apart = math.expm1(stats.t.ppf(0.975, 4) * sd / math.sqrt(5))
    assert f"sampling {sd:.1%}" in told.says
    assert f"tell {apart:.0%} apart" in told.says
    assert told.state == "yes"
    assert doctor.judged({"sampling": list(values * 5)}).state == "careful"


def test_a_quick_measurement_of_the_noise_floor(monkeypatch):
    monkeypatch.setattr(doctor, "TURNS", 3)
    monkeypatch.setattr(doctor, "PARTS", ("weights-shm",))
    told = doctor.noise()
    assert told.what == "noise floor"
    assert "weights-shm" in told.says
