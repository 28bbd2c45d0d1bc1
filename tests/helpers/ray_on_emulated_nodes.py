"""Starts Ray on two emulated nodes, lets a task on each use its core, and prints what came of it as JSON.

The driver is a process of the first node's; Ray is not used in this one.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from suites.testbed.base import Shape
from suites.testbed.registry import open_testbed

DRIVER = """
import sys, time, ray

ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")

@ray.remote(resources={"runner": 1})
class Runner:
    def where(self):
        return ray.util.get_node_ip_address()

    def compute(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

runners = [Runner.remote() for _ in range(2)]
print(*ray.get([runner.where.remote() for runner in runners]), flush=True)
sys.stdin.readline()
ray.get([runner.compute.remote(2.0) for runner in runners])
print("done", flush=True)
sys.stdin.readline()
"""


def groups_of(pid):
    """Folders of the control groups that a process is in, as a text."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def main():
    with open_testbed("netns", Shape(nodes=2, cores=0.2)) as testbed:
        begun = time.monotonic()
        testbed.start_ray()
        started_s = time.monotonic() - begun
        cluster = testbed.cluster
        # Of this process's groups, those of daemons too.
        ours = f"/tianji-testbed-{os.getpid()}-"
        driver = cluster.nodes[0].popen(
            [sys.executable, "-c", DRIVER, cluster.ray_address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with driver:
            where = driver.stdout.readline().split()
            testbed.limit()
            before = testbed.usage()
            driver.stdin.write("go\n")
            driver.stdin.flush()
            done = driver.stdout.readline().strip()
            after = testbed.usage()
            daemons = [pid for pid in psutil.pids() if ours in groups_of(pid)]
            driver.stdin.write("end\n")
    seconds = (after[0].ns - before[0].ns) / 1e9
    print(
        json.dumps(
            {
                "where": sorted(where),
                "done": done,
                "started_s": started_s,
                "shares": [(late.cpu_s - early.cpu_s) / seconds for late, early in zip(after, before, strict=True)],
                "daemons": [late.daemons_cpu_s for late in after],
                "processes": len(daemons),
                "left": [pid for pid in daemons if psutil.pid_exists(pid)],
            }
        )
    )


if __name__ == "__main__":
    main()
