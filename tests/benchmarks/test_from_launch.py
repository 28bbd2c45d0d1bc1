"""A workload as options of the command."""

import msgspec

from baselines.system import Task
from baselines.tianji import TianJi
from benchmarks import from_launch
from suites.session import catalogue
from tianji.__main__ import parser
from tianji.commands.settings import settings


def test_the_command_trains_what_the_workload_says():
    for workload in from_launch.WORKLOADS:
        options = ["train", *from_launch.settings(workload, (0, 1)), "--seed", "3"]
        config = settings(parser().parse_args(options))
        wanted = TianJi().config(Task(TianJi.name, catalogue.load(workload), 3, (0, 1)))
        # A user's run is looked after, and stops at the mean.
        like = {
            name: getattr(wanted, name) for name in ("checkpoint_seconds", "restarts", "stop_seconds", "snapshot_every_steps")
        }
        assert config.stop_return == 300
        assert msgspec.structs.replace(config, stop_return=None, **like) == wanted
