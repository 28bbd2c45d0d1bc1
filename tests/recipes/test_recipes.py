"""Recipes for clusters, as far as one host can tell: what the Slurm job starts, how it ends, what the manifest asks for."""

import os
import re
import shutil
import subprocess

import pytest
import yaml
from elsewhere import ROOT

JOB = ROOT / "recipes" / "slurm" / "ray.sbatch"
MANIFEST = ROOT / "recipes" / "kuberay" / "cluster.yaml"

STUBS = {
    "scontrol": "printf 'one\\ntwo\\nthree\\n'",
    "hostname": "echo '10.0.0.1 192.168.0.1'",
    # What runs until it is ended says so; everything else is over at once.
    "srun": "trap 'echo ended >> $LOG; exit 0' TERM; echo \"srun $*\" >> $LOG; while :; do sleep 0.02; done",
    "ray": 'echo "ray $*" >> $LOG; test ! -e "$REFUSED" || { rm "$REFUSED"; exit 1; }',
    # Makes the token, then counts nodes.
    "python3": 'case "$*" in *secrets*) echo 0123abc;; *) test "$(grep -c ^srun $LOG)" = "${@: -1}";; esac',
    "tianji": 'echo "tianji $* at $RAY_ADDRESS with $RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> $LOG; exit ${STATUS:-0}',
}


@pytest.fixture
def job(tmp_path):
    """Runs the script on three nodes that are not there; gives its exit status, its log and what it said."""
    if (bash := shutil.which("bash")) is None:
        pytest.skip("bash is not installed")
    programs = tmp_path / ".bench" / "bin"
    programs.mkdir(parents=True)
    for name, body in STUBS.items():
        (programs / name).write_text(f"#!{bash}\n{body}\n")
        (programs / name).chmod(0o755)
    log, refused = tmp_path / "log", tmp_path / "refused"
    slurm = {"SLURM_SUBMIT_DIR": tmp_path, "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_ID": 30007, "SLURM_CPUS_PER_TASK": 4}
    slurm["POLL_SECONDS"] = 0.02

    def run(*arguments, not_at_once=False, **more):
        if not_at_once:
            refused.touch()
        there = {**os.environ, "LOG": log, "REFUSED": refused, **slurm, **more}
        done = subprocess.run(
            [bash, JOB, *arguments], env={k: str(v) for k, v in there.items()}, capture_output=True, text=True, timeout=30
        )
        return done.returncode, log.read_text().splitlines() if log.exists() else [], done.stderr

    return run


def test_a_head_then_workers_then_the_command_and_nothing_is_left(job):
    status, lines, said = job("tianji", "train", "--env", "CartPole-v1", not_at_once=True)
    assert (status, said) == (0, "")
    started = [line for line in lines if line.startswith("srun")]
    nodes = [re.search(r"--nodelist=(\w+)", line)[1] for line in started]
    # Workers start at the same time.
    assert (nodes[0], set(nodes[1:])) == ("one", {"two", "three"})
    assert ["--head" in line for line in started] == [True, False, False]
    assert "--port=20007" in started[0]
    assert all("--address=10.0.0.1:20007" in line for line in started[1:])
    # A core for the learner beside those of the actors.
    assert all("--cpus-per-task=4" in line and "--num-cpus=5" in line for line in started)
    at = lines.index("tianji train --env CartPole-v1 at 10.0.0.1:20007 with token 0123abc")
    # The head was asked until it was there, and the command waited for every node.
    assert lines[:at].count("ray health-check --address 10.0.0.1:20007") == 2
    assert all(lines.index(line) < at for line in started)
    assert lines[at + 1 :] == ["ended"] * 3


def test_a_job_has_the_exit_status_of_its_command(job):
    status, lines, _ = job("tianji", "train", STATUS=3)
    assert status == 3
    assert lines.count("ended") == 3


def test_without_arguments_every_node_has_a_group(job):
    _, lines, _ = job()
    (trained,) = (line for line in lines if line.startswith("tianji"))
    assert "--groups 3 --actors 4" in trained
    assert "ray_placement=STRICT_SPREAD" in trained
    assert "--out runs/slurm-30007" in trained


def test_another_environment_can_be_named(job, tmp_path):
    there = tmp_path / "elsewhere"
    (tmp_path / ".bench").rename(there)
    status, lines, said = job("tianji", "train", TIANJI_ENV=there)
    assert (status, said) == (0, "")
    assert any(line.startswith("tianji train at") for line in lines)


def test_outside_slurm_it_says_so(job):
    status, lines, said = job(SLURM_SUBMIT_DIR="")
    assert status != 0
    assert "run this with sbatch" in said
    assert lines == []


def test_the_job_passes_shellcheck():
    if (shellcheck := shutil.which("shellcheck")) is None:
        pytest.skip("shellcheck is not installed")
    subprocess.run([shellcheck, JOB], check=True, timeout=30)


def test_pods_of_the_manifest_are_equal_nodes_of_this_version_of_ray():
    claim, cluster = yaml.safe_load_all(MANIFEST.read_text())
    pinned = re.search(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    assert cluster["spec"]["rayVersion"] == pinned
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    (workers,) = cluster["spec"]["workerGroupSpecs"]
    groups = (cluster["spec"]["headGroupSpec"], workers)
    (first, second) = ([container] for group in groups for container in group["template"]["spec"]["containers"])
    for container, group in zip((*first, *second), groups, strict=True):
        cpus = int(container["resources"]["limits"]["cpu"])
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert int(group["rayStartParams"]["num-cpus"]) == cpus + 1
        assert yaml.safe_load(yaml.safe_load(group["rayStartParams"]["resources"])) == {"runner": 1, "learner": 1}
        # A port that Ray listens on is what both probes ask.
        port = int(group["rayStartParams"].get("node-manager-port", 6379))
        assert {container[probe]["tcpSocket"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {port}
        assert group["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert first[0]["resources"] == second[0]["resources"]
