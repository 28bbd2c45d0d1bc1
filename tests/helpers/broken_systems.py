"""A small system that keeps the contract, and others that each break it in one way."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory

import gymnasium
import numpy as np

from baselines.system import System
from tianji.algorithms import networks

ROUND = 128


class Honest(System):
    """Plays at random and publishes the same policy again and again."""

    name, title = "honest", "Honest"
    share_reported, share_trained = 1.0, 1.0
    seconds_factor = 1.0
    first_snapshot, last_snapshot = 0, 10**9
    apart = 1
    steps_of_round = ROUND

    def available(self):
        return None

    def deviations(self, task):
        return ["It does not learn."]

    def settings(self, task):
        return {}

    def begin(self, recorder):
        """What it does wrong at the start."""

    def train(self, task, recorder):
        w = task.workload
        self._weights = networks.build(w.network, 4, 2).initialise(task.seed)
        env = gymnasium.make(w.env)
        env.reset(seed=task.seed)
        self.begin(recorder)
        self._snapshot(recorder, 0)
        begun = time.monotonic()
        recorder.first_step(time.monotonic_ns())
        steps = length = 0
        while steps < self.share_trained * w.budget_steps and time.monotonic() - begun < self.seconds_factor * w.budget_seconds:
            for _ in range(self.steps_of_round):
                _, _, terminated, truncated, _ = env.step(steps % 2)
                steps, length = steps + 1, length + 1
                if terminated or truncated:
                    told = int(steps * self.share_reported)
                    recorder.episode(time.monotonic_ns(), float(length), length, told)
                    length, _ = 0, env.reset()
            if steps % (self.apart * w.snapshot_every_steps) == 0:
                self._snapshot(recorder, steps)
            time.sleep(0.005)  # The work of an update.

    def _snapshot(self, recorder, steps):
        if self.first_snapshot <= steps <= self.last_snapshot:
            told = int(steps * self.share_reported)
            self.publish(recorder, told, told // ROUND)

    def publish(self, recorder, steps, version):
        recorder.snapshot(time.monotonic_ns(), steps, version, self._weights)


class Boasting(Honest):
    share_reported = 2.0


class Secretive(Honest):
    share_reported = 0.5


class Lazy(Honest):
    share_trained = 0.5


class Eager(Honest):
    share_trained = 1.5


class Late(Honest):
    first_snapshot = 512


class Unfinished(Honest):
    last_snapshot = 1024


class Sparse(Honest):
    apart = 2


class Swelling(Honest):
    """Its rounds are larger than the workload's, and it does not say so."""

    steps_of_round = 640


class Roomy(Swelling):
    """As `Swelling`, but it says so."""

    def round_steps(self, task):
        return self.steps_of_round


class Sharing(Honest):
    """Trains only where actors share the environments."""

    def unable(self, workload):
        return None if workload.actors == 2 else "it needs two actors"


class Choosy(Honest):
    def unable(self, workload):
        return "nothing is good enough"


class Disordered(Honest):
    def publish(self, recorder, steps, version):
        recorder.snapshot(time.monotonic_ns(), steps, 99 - version if steps else 0, self._weights)


class Damaged(Honest):
    def publish(self, recorder, steps, version):
        super().publish(recorder, steps, version)
        (recorder.directory / f"snapshots/{steps:09d}.safetensors").write_bytes(b"no policy")


class Crashing(Honest):
    def begin(self, recorder):
        raise RuntimeError("the engine fell off")


class Lingering(Honest):
    seconds_factor = 3.0


class Hasty(Honest):
    seconds_factor = 0.3


class Deaf(Honest):
    def begin(self, recorder):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Spreading(Honest):
    def begin(self, recorder):
        os.sched_setaffinity(0, range(os.cpu_count()))


class Breeding(Honest):
    def begin(self, recorder):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


class Forgetful(Honest):
    def begin(self, recorder):
        self._left = SharedMemory(create=True, size=4096)
        self._view = np.ndarray(4096, np.uint8, self._left.buf)
        # As a system does that is killed before it can clean up.
        resource_tracker.unregister(self._left._name, "shared_memory")


class Untidy(Honest):
    def begin(self, recorder):
        open("log.txt", "w").close()


class Playing(Honest):
    """Has policies of a format of its own, and a player for them."""

    returns = "[1.0] * int(sys.argv[4])"

    def player(self):
        return [sys.executable, "-c", f"import random, sys; open(sys.argv[1]); print({self.returns})"]

    def publish(self, recorder, steps, version):
        file = f"snapshots/{steps:09d}.txt"
        (recorder.directory / file).write_text("policy")
        recorder.snapshot_file(time.monotonic_ns(), steps, version, file)


class Dicing(Playing):
    returns = "[random.random() for _ in range(int(sys.argv[4]))]"


class Unplayable(Playing):
    def player(self):
        return None


CLASSES = [value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, Honest)]
