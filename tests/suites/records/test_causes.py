"""The cause of a failed run: never a warning, a log line or a line of a traceback."""

import pytest

from suites.records.causes import cause

PLAINTEXT = "WARNING: learner g0: tcp://10.77.0.254:0: PLAINTEXT off this host, by choice: whoever is on the way can read it"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (f"ended without a first step and a snapshot\n{PLAINTEXT}", "ended without a first step and a snapshot"),
        ("killed: it had not ended when its time was over\nstep 1\nstep 2", "killed: it had not ended when its time was over"),
        (f"exit status 1\n{PLAINTEXT}\nRoleFailed: actor g0.a1 failed\n{PLAINTEXT}", "RoleFailed: actor g0.a1 failed"),
        ("exit status 1\nValueError: no\n/lib/x.py:3: UserWarning: old\n  warnings.warn(old)", "ValueError: no"),
        ("exit status 1\nValueError: no\n(raylet pid=3) node died", "ValueError: no"),
        ("exit status 1\nOSError: full\nthe host process of tianji ended with exit status 1", "OSError: full"),
        ("exit status 1\nactor g0.a1 ended with status -9", "actor g0.a1 ended with status -9"),
        ("exit status -9", "exit status -9"),
        (f"exit status -9\n{PLAINTEXT}\n", "exit status -9"),
        (None, "no reason is known"),
    ],
)
def test_the_cause_is_what_the_runner_knows_or_the_last_line_that_is_no_warning(error, told):
    assert cause(error) == told
