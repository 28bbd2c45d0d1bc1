"""Follows docs/scaling.md on two emulated nodes as if they were real hosts: Ray up, the suite, and what it left as JSON.

`python on_two_hosts.py OUT`. The commands are those of the document; hosts have nothing in common but the file system.
"""

import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

from suites.testbed.base import Shape
from suites.testbed.registry import open_testbed

LIMIT_S = 120
HERE = Path(__file__).parent.parent.parent
BIN = str(Path(sys.executable).parent)


def commands():
    """Those of the document that start Ray and run the suite, in order, with its programs found where these are."""
    text = (HERE / "docs" / "scaling.md").read_text()
    lines = re.sub(r"\\\n\s*", "", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))).splitlines()
    found = [re.sub(r"\s{3,}#.*", "", line).replace(".bench/bin", BIN) for line in lines]
    return [line for line in found if "bin/ray start" in line or "tianji-bench run" in line]


def main(out):
    with open_testbed("netns", Shape(nodes=2)) as testbed:
        first, second = testbed.cluster.nodes
        environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
        environment |= {"RAY_ADDRESS": f"{first.address}:6379", "PYTHONPATH": str(HERE)}
        head, join, suite = commands()

        def on(node, command):
            for there, here in (("10.0.0.1", first.address), ("10.0.0.2", second.address)):
                command = command.replace(there, here)
            output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            done = node.popen(["bash", "-c", command], env=environment, cwd=HERE, **output)
            said, _ = done.communicate(timeout=LIMIT_S)
            assert done.returncode == 0, f"{command}: {said.decode()}"

        on(first, head + " --object-store-memory=100000000")
        on(second, join + " --object-store-memory=100000000")
        # As the document has it, but for how much of it: one size, one system, and the shortest experiment.
        suite = re.sub(r"--workloads \S+", "--workloads dqn-link-weak", suite)
        suite = re.sub(r"--systems \S+", "--systems tianji", suite).replace("--nodes 1,2", "--nodes 2 --seeds 1 --once --busy")
        on(first, re.sub(r"--out \S+", f"--out {out}", suite))
    (bundle,) = Path(out).glob("*/bundle.json")
    manifest = json.loads(bundle.read_text())
    events = [json.loads(line) for line in (bundle.parent / "events.jsonl").read_text().splitlines()]
    checks = [event for event in events if event["event"] == "node_check"]
    roles = {event["role"] for event in events if event["event"] == "progress"}
    kept = {name: manifest[name] for name in ("status", "testbed", "nodes", "deviations", "error")}
    print(json.dumps({**kept, "checks": checks, "roles": sorted(roles), "config": manifest["configuration"]["system"]}))


if __name__ == "__main__":
    main(sys.argv[1])
