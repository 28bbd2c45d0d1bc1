"""Holds a testbed of two emulated nodes, says so, and waits to be told to go on, or killed."""

import sys

from suites.testbed.base import Shape
from suites.testbed.registry import open_testbed


def main(how):
    with open_testbed("netns", Shape(nodes=2, cores=0.2, company=1)) as testbed:
        print(*(group for node in testbed.cluster.nodes for group in node.control_groups), flush=True)
        sys.stdin.readline()
        if how == "raise":
            raise ValueError("on purpose")


if __name__ == "__main__":
    main(sys.argv[1])
