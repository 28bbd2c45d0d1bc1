"""Explorer: waits for weights if its algorithm needs them, samples one fragment, sends it, and repeats.

Background threads send and receive (`Mail`), and this thread steps environments. On policy it computes the advantages of its
fragments itself, with the weights that it used.
"""

from __future__ import annotations

import time
from collections import deque

from baselines.xingtian.assignment import Assignment
from baselines.xingtian.mail import Mail
from baselines.xingtian.memory import SharedMemory
from baselines.xingtian.messages import Notice, decode_notice, label
from tianji.algorithms import ppo
from tianji.algorithms.flat import PolicyValueNetwork
from tianji.messages import ChunkHeader, Episodes, FromRole, SlotRef, Started, Stop
from tianji.roles.actor import Rollout
from tianji.worlds.sampler import Sampler
from tianji.worlds.workers import Views, chunk_views


class Explorer:
    """One explorer's state and its loop."""

    def __init__(self, assignment: Assignment) -> None:
        a, self._clock = assignment, time.monotonic_ns
        self.assignment = a
        self._layout_id, self._on_policy = a.layout.id, a.config.rule.on_policy
        self._memory = SharedMemory(a)
        self._body = chunk_views(a.layout, self._memory.slot)
        self._sampler = Sampler(a.config, a.describe, a.layout, self._body, a.index, self._clock)
        self._network = self._sampler.network
        self._blocks = self._network.acting_views(self._sampler.weights())
        self.account = self._sampler.account
        self._free = deque(SlotRef(a.index, slot) for slot in range(a.config.chunk_slots))
        self._announced = -1
        """Version of the latest notice."""
        self._version = -1
        """Version that was played last."""
        self._fragments = 0

    def run(self, hello: FromRole) -> None:
        """Explore until the launcher says stop."""
        a = self.assignment
        doors = a.doors
        with Mail(self.account, a.control_uri, doors.explorer(a.index), doors.upward, decode_notice, a.run_keys) as mail:
            if mail.meet(a.name, self._memory.find) and mail.begin(hello):
                self._explore(mail)
            mail.finish(lambda: self.account.report(a.name, self._counters()))
        self._sampler.close()

    def _lacks(self) -> str | None:
        """What the next fragment is waiting for; None: nothing."""
        if self._announced < 0 or (self._on_policy and self._announced <= self._version):
            return "weights"
        return None if self._free else "credit"

    def _explore(self, mail: Mail) -> None:
        a = self.assignment
        while True:
            # Everything that has come is heard before a fragment begins; only what is needed is waited for.
            while (notice := self._next(mail)) is not None:
                if isinstance(notice, Stop):
                    return
                self._announced = max(self._announced, notice.version)
                self._free.extend(slot for slot in notice.slots if slot.arena == a.index)
            if not self._fragments:
                mail.tell(Started(a.name, self._clock()))
            header = self._fragment()
            # On the learner's node nobody needs to be told where the body is: it stays.
            mail.push(header, *([label(header.slot, header.size_bytes)] if a.node else []))
            if finished := self._sampler.take_finished():
                mail.tell(Episodes(a.name, self._sampler.steps, self._clock(), finished))
            mail.tell_progress(a.name, self._counters)

    def _counters(self) -> dict[str, float]:
        return {"samples_produced": float(self._sampler.steps), "chunks_produced": float(self._fragments)}

    def _next(self, mail: Mail) -> Notice | Stop | None:
        """Next message, waiting for it if it is needed. None if a fragment can begin."""
        item: Notice | Stop | None = mail.glance()
        if item is None and (lack := self._lacks()):
            item = mail.take(lack)
        return item

    def _fragment(self) -> ChunkHeader:
        """Step the environments under the latest weights."""
        before = self._clock()
        # Straight from the store, where they stand once for all explorers, into the network.
        version = self._memory.store.read(self._sampler.weights())
        assert version is not None
        self._version = version
        self.account.busy_ns["serialise"] += self._clock() - before
        done = self._sampler.run(Rollout(self._free.popleft()))
        if self._on_policy:
            self._assess(self._body(done.slot))
        header = ChunkHeader(
            producer=self.assignment.index,
            sequence=self._fragments,
            version=version,
            layout=self._layout_id,
            count=done.count,
            ragged_rows=done.ragged_rows,
            size_bytes=done.size_bytes,
            slot=done.slot,
        )
        self._fragments += 1
        return header

    def _assess(self, views: Views) -> None:
        """Advantages and values, by the value network that was played with: counted as inference."""
        network, before = self._network, self._clock()
        assert isinstance(network, PolicyValueNetwork)
        config, describe = self.assignment.config, self.assignment.describe
        batch = ppo.assess([views], lambda features: network.values(self._blocks, features), describe, config.ppo)
        assert batch.value is not None
        for name, column in (("advantage", batch.advantage), ("value", batch.value)):
            views[name][...] = column.reshape(views[name].shape)
        self.account.busy_ns["infer"] += self._clock() - before
