"""Learner: waits for one fragment per explorer on average, trains, and notifies explorers of new weights.

Background threads receive and send (`Mail`), and this thread trains. The replay of DQN is in this process.
"""

from __future__ import annotations

import time

import numpy as np

from baselines.xingtian.assignment import Assignment
from baselines.xingtian.collation import collate
from baselines.xingtian.mail import Mail
from baselines.xingtian.memory import SharedMemory
from baselines.xingtian.messages import Notice, address, decode_header
from tianji.algorithms import ppo
from tianji.algorithms.base import complete
from tianji.algorithms.replay import Experience
from tianji.disciplines.staleness import Lag, SequenceLedger, StalenessLedger, Versions
from tianji.messages import LIFE, ChunkHeader, Done, FromRole, ProtocolError, SlotRef, Snapshot, Stop
from tianji.worlds.trainer import Trainer
from tianji.worlds.workers import chunk_views


class Learner:
    """The learner's state and its loop.

    It has the limits of TianJi's learner. No round begins that would exceed the budget of steps. A snapshot is taken before the
    first update, after the last, and after each round that passes a multiple of `snapshot_every_steps`.
    """

    def __init__(self, assignment: Assignment) -> None:
        a, self._clock = assignment, time.monotonic_ns
        self.assignment = a
        self._layout_id = a.layout.id
        self._memory = SharedMemory(a)
        self._body = chunk_views(a.layout, self._memory.slot)
        trainer = Trainer(a.config, a.describe, self._body)
        self._algorithm, self.account = trainer.algorithm, trainer.account
        # Off policy without a replay, weights go to those whose fragments were trained on; else to everybody.
        self._to_contributors = not (a.config.rule.on_policy or self._algorithm.replays)
        self._pending: list[ChunkHeader] = []
        self._freed: list[SlotRef] = []
        """Slots whose content is needed no longer, and of which explorers have not been told yet."""
        self._version = self._rounds = self._steps = self._rows = 0
        """Optimizer steps, rounds, samples received, and rows trained on (with repetitions)."""
        self._snapshot_version = -1
        self._sequences = SequenceLedger(LIFE)
        # There is no staleness rule in this discipline: lags are only counted. The barrier makes them 0 on policy.
        self._staleness = StalenessLedger(None)
        self._versions = Versions(a.config.actors)

    def run(self, hello: FromRole) -> None:
        """Train until the budget is used or the launcher says stop."""
        a = self.assignment
        doors = a.doors
        with Mail(self.account, a.control_uri, doors.learner, doors.downward, decode_header, a.run_keys) as mail:
            if mail.meet(a.name, self._memory.find) and mail.begin(hello):
                self._train(mail)
                if self._snapshot_version != self._version:
                    self._snapshot(mail)
            mail.finish(lambda: self.account.report(a.name, self._counters(), self._staleness.histograms()))

    def _train(self, mail: Mail) -> None:
        self._publish(mail)
        self._snapshot(mail)
        config = self.assignment.config
        done = False
        while not done:
            if (chunks := self._round(mail)) is None:
                return
            samples = sum(chunk.count for chunk in chunks)
            before, optimizer_steps = self._steps, self._update(chunks)
            self._steps += samples
            self._version += optimizer_steps
            self._rounds += optimizer_steps > 0
            self._rows += round(config.reuse * config.round_steps) if optimizer_steps else 0
            done = self._steps + samples > config.stop_steps
            if not done:  # Otherwise this would start fragments that nobody trains on.
                self._publish(mail, weights=optimizer_steps > 0)
            if done or before // config.snapshot_every_steps != self._steps // config.snapshot_every_steps:
                self._snapshot(mail)
            mail.tell_progress(self.assignment.name, self._counters)
        mail.tell(Done("steps"))
        while not isinstance(mail.take("stop"), Stop):
            pass  # Fragments that were under way: nobody trains on them any more.

    def _round(self, mail: Mail) -> list[ChunkHeader] | None:
        """Wait for as many fragments as there are explorers. None at the end of the run.

        On policy this is one from each explorer, because they wait for the weights of this round. Slots that a replay has
        copied are returned before this waits, so that no explorer is blocked.
        """
        count = self.assignment.config.actors
        while len(self._pending) < count:
            if (item := mail.glance()) is None:
                self._give_back(mail)
                item = mail.take("barrier" if self._pending else "samples")
            if isinstance(item, Stop):
                return None
            self._take_in(item)
        # Order of arrival is chance; order of producer is not. The sum over a batch then is the same in every run.
        chunks = sorted(self._pending[:count], key=lambda chunk: (chunk.producer, chunk.sequence))
        del self._pending[:count]
        return chunks

    def _take_in(self, chunk: ChunkHeader) -> None:
        if chunk.layout != self._layout_id:
            raise ProtocolError(f"fragment of explorer {chunk.producer} has layout {chunk.layout}, not {self._layout_id}")
        self._sequences.see(chunk.producer, chunk.sequence)
        behind = self._rounds - self._versions.use(chunk.producer, chunk.version)
        self._staleness.admit(Lag(self._version - chunk.version, behind), chunk.count)
        self._pending.append(chunk)
        if self._algorithm.replays:
            start = self._clock()
            self._algorithm.insert([Experience(self._body(chunk.slot), chunk.producer, chunk.sequence)])
            self._freed.append(chunk.slot)
            self.account.busy_ns["update"] += self._clock() - start

    def _update(self, chunks: list[ChunkHeader]) -> int:
        """Train on one round; the optimizer steps done."""
        start, algorithm = self._clock(), self._algorithm
        for chunk in chunks:
            self._staleness.use(Lag(self._version - chunk.version, self._rounds - self._versions.rounds(chunk.version)))
        if algorithm.replays:
            done = algorithm.train(self._steps + sum(chunk.count for chunk in chunks))
        else:
            views = [self._body(chunk.slot) for chunk in chunks]
            if isinstance(algorithm, ppo.PPO):
                done = complete(algorithm.training(collate(views, self.assignment.describe), self._steps))
            else:
                done = algorithm.update(views, self._steps)
            self._freed += [chunk.slot for chunk in chunks]
        self.account.busy_ns["update"] += self._clock() - start
        return done

    def _give_back(self, mail: Mail) -> None:
        """Have those whose slots are free again told so, without new weights."""
        if self._freed:
            slots, self._freed = self._freed, []
            mail.push(Notice(self._version, slots), address(sorted({slot.arena for slot in slots})))

    def _publish(self, mail: Mail, *, weights: bool = True) -> None:
        """Write new weights to the store once, and notify explorers of them and of free slots."""
        if weights:
            start = self._clock()
            # Written by this thread: handing a copy to another one would be the same copy, and then one more.
            self._memory.store.write(self._version, self._algorithm.updater.weights()[: self.assignment.parameters])
            self._versions.publish(self._version, self._rounds, (chunk.version for chunk in self._pending))
            self.account.busy_ns["serialise"] += self._clock() - start
        slots, self._freed = self._freed, []
        # At first everybody waits for weights, whoever trains on what later.
        contributors = sorted({slot.arena for slot in slots})
        to = contributors if contributors and self._to_contributors else range(self.assignment.config.actors)
        mail.push(Notice(self._version, slots), address(to, weights=weights))

    def _snapshot(self, mail: Mail) -> None:
        flat = np.ascontiguousarray(self._algorithm.updater.weights(), "<f4").tobytes()
        mail.tell(Snapshot(self._version, self._steps, self._clock(), flat))
        self._snapshot_version = self._version

    def _counters(self) -> dict[str, float]:
        return {
            "steps": float(self._steps),
            "optimizer_steps": float(self._version),
            "samples_consumed_unique": float(self._steps),
            "samples_consumed": float(self._rows),
            "chunks_lost": float(self._sequences.lost),
            "chunks_duplicated": float(self._sequences.duplicated),
            **self._staleness.counters(),
        }
