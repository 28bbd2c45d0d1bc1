"""File descriptors: a run that cannot have enough is refused in one line, before anything starts."""

import os
import resource
import subprocess
import sys

import psutil
import pytest

from tianji.config import TrainConfig
from tianji.launch.descriptors import needed
from tianji.messages import Progress
from tianji.run.training import train


@pytest.mark.parametrize(("actors", "groups"), [(4, 1), (1, 2)])
def test_no_process_has_more_than_is_asked_for(small, actors, groups):
    config, most = small(actors=actors, groups=groups, envs_per_actor=4, stop_steps=4096 * groups), []

    def count(message):
        if isinstance(message, Progress) or not most:
            processes = [psutil.Process(), *psutil.Process().children()]
            most.append(max(process.num_fds() for process in processes if process.is_running()))

    train(config, count)
    # This process has those of the tests, too.
    assert 20 < max(most) <= needed(config) + len(os.listdir("/proc/self/fd"))


def test_a_run_that_cannot_have_enough_is_refused(tmp_path):
    given = [sys.executable, "-m", "tianji", "train", "--env", "CartPole-v1", "--actors", "8", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)),
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    need = needed(TrainConfig(env="CartPole-v1", actors=8))
    assert f"8 actors need {need} file descriptors, and this system allows 40" in done.stderr
    assert not (tmp_path / "run").exists()
