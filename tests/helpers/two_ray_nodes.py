"""A Ray cluster of two nodes on this host, shared by tests. It prints its address and ends with its standard input.

A process for itself: Ray leaves connections open in whatever process it was used in.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from commands import processes_told

ROOM = {"runner": 1, "learner": 1}
"""Resources by which RLlib spreads over nodes."""


def main(folder):
    if os.fork():
        sys.exit()  # The cluster is nobody's child, for each test looks at what children it has left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # In order, then, too.
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 4, "resources": ROOM, "temp_dir": folder, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes.add_node(num_cpus=4, resources=ROOM)
        nodes.wait_for_nodes()
        print("\n" + json.dumps({"address": nodes.address, "pid": os.getpid(), "folder": folder}), flush=True)
        sys.stdin.read()
    finally:
        nodes.shutdown()


@contextmanager
def running(folder):
    """The cluster, in a process that ends when this one lets go of its input; nothing of it is left afterwards."""
    (folder / "ray").mkdir()  # Where Ray writes its address.
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(folder),
    )
    try:
        process.wait()  # For the one that went before.
        told = next(line for line in process.stdout if line.startswith("{"))
        yield json.loads(told)
    finally:
        process.stdin.close()
        process.stdout.read()  # To its end, which is the cluster's.
        process.stdout.close()
    assert not processes_told(str(folder))


def environment(folder):
    """Of the cluster, and of programs that use it: what is told apart by it, and where modules of tests are."""
    helpers = str(Path(__file__).parent)
    there = [helpers, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(there), "TMPDIR": str(folder)}


def ask(script, cluster, *arguments, timeout):
    """What a script, given the cluster, says of it: the last line that it prints, of JSON."""
    done = subprocess.run(
        [sys.executable, script.__file__, json.dumps(cluster), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(cluster["folder"]),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main(sys.argv[1])
