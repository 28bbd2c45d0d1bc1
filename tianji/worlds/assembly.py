"""Builds one role's host: its state machine, its worker and its ends of the edges."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from tianji import topology as names
from tianji.algorithms.state import State
from tianji.balance import Balance
from tianji.channel.base import Inlet, WeightsOutlet
from tianji.channel.registry import Network
from tianji.config import LEAST_LAG_ROUNDS, TrainConfig
from tianji.envs import EnvDescription
from tianji.messages import LIFE
from tianji.roles.actor import Actor
from tianji.roles.buffer import Buffer
from tianji.roles.fusion import ROOT, Membership
from tianji.roles.learner import Learner
from tianji.roles.root import Root
from tianji.run_folder import read_state, read_values, state_path
from tianji.staleness import StalenessLedger
from tianji.telemetry import Clock, Sink
from tianji.topology import RoleSpec, Topology, chunk_edge, has_root, model_size, parameters
from tianji.worlds.averager import Averager
from tianji.worlds.host import Host, Models, Trace
from tianji.worlds.sampler import Sampler
from tianji.worlds.trainer import Trainer
from tianji.worlds.workers import Idle, chunk_views


class Store(Struct, frozen=True):
    """Where learners keep their state."""

    folder: str
    resume: bool
    """Whether they begin with what lies there."""


class Past(Struct, frozen=True):
    """What came before a role's process."""

    life: int = 0
    """How many processes of this role were there before."""
    steps: int = 0
    """Environment steps that an actor has made."""


class Assembler:
    """Builds the hosts of one run.

    Parameters
    ----------
    pace
        the time that roles are told of; see `Host`.
    trace
        is told everything that roles hear and do.
    store
        where learners keep their state; None: nowhere.
    """

    def __init__(
        self,
        config: TrainConfig,
        describe: EnvDescription,
        topology: Topology,
        network: Network,
        tell: Sink,
        *,
        pace: Clock = time.monotonic_ns,
        trace: Trace | None = None,
        store: Store | None = None,
    ) -> None:
        self.config, self.describe, self.topology, self.network = config, describe, topology, network
        self.tell, self.pace, self.trace, self.store = tell, pace, trace, store
        self.clock = time.monotonic_ns
        self.edge = chunk_edge(config, describe)
        self._bound: dict[str, Any] = {}

    @cached_property
    def parameters(self) -> int:
        """Length of the vector of weights: a buffer, which has none, need not make a user's network to know it."""
        return parameters(self.config, self.describe)

    def bind(self, spec: RoleSpec) -> dict[str, str]:
        """Open the ends of edges that others come to; where they are, by the edge's name."""
        for name, (owner, _) in names.edges(self.topology.roles).items():
            if owner == spec and name not in self._bound:
                address = self.topology.addresses[name]
                if name.startswith(("chunks", "batches")):
                    self._bound[name] = self.network.inlet(address, self.edge)
                else:
                    models = not name.startswith("weights")
                    vector = model_size(self.config, self.describe) if models else self.parameters
                    self._bound[name] = self.network.weights_outlet(address, vector)
        return {name: end.uri for name, end in self._bound.items()}

    def wire(self, addresses: dict[str, str]) -> None:
        """The addresses of all edges are known."""
        self.topology = msgspec.structs.replace(self.topology, addresses=addresses)

    def build(self, spec: RoleSpec, past: Past | None = None) -> Host:
        """One role's host."""
        self.bind(spec)
        kinds = {"root": self._root, "learner": self._learner, "buffer": self._buffer, "actor": self._actor}
        host = kinds[spec.kind](spec, past or Past())
        host.trace = self.trace
        return host

    def _inlet(self, name: str) -> Inlet:
        return cast(Inlet, self._bound[name])

    def _publisher(self, name: str) -> WeightsOutlet:
        return cast(WeightsOutlet, self._bound[name])

    def _host(self, role: Any, worker: Any, **ends: Any) -> Host:
        return Host(role, worker, self.tell, self.clock, self.pace, **ends)

    def _root(self, spec: RoleSpec, past: Past) -> Host:
        config, addresses = self.config, self.topology.addresses
        size = model_size(config, self.describe)
        worker = Averager(self.parameters, config.groups, self.clock)
        inlets = {str(g): self.network.weights_inlet(addresses[names.model(g)], size) for g in range(config.groups)}
        outlets = {str(g): self._publisher(names.mean(g)) for g in range(config.groups)}
        role = Root(spec.name, groups=config.groups, waits=config.on_policy)
        return self._host(role, worker, models=Models(worker, inlets, outlets))

    def _learner(self, spec: RoleSpec, past: Past) -> Host:
        config, g, port = self.config, spec.group, self.topology.learner_port
        inlet = self._inlet(names.batches(g) if port == "batches" else names.chunks(g))
        store = None if self.store is None else state_path(Path(self.store.folder), g)
        worker = Trainer(config, self.describe, chunk_views(self.edge.layout, inlet.body), self.clock, store, g)
        role = learner(spec, config, self.edge.layout.id, port, saves=store is not None)
        # Actors begin with the credit of the first window; all else is the learner's to grant.
        inlet.reserve(role.credits.waiting(), relayed=port == "batches")
        if store is not None and self.store is not None and self.store.resume:
            resume(role, worker, read_state(store))
            if config.on_policy and config.groups > 1:
                # Groups that wait for each other must have as many rounds to go: those that stored later repeat some.
                kept = (read_values(state_path(Path(self.store.folder), group)) for group in range(config.groups))
                role.steps = min(values["learner"]["steps"] for values in kept)
        models = None
        if has_root(config):
            size = model_size(config, self.describe)
            mean = self.network.weights_inlet(self.topology.addresses[names.mean(g)], size)
            models = Models(worker, {ROOT: mean}, {ROOT: self._publisher(names.model(g))})
        weights_out = self._publisher(names.weights(g))
        return self._host(role, worker, inlets={port: inlet}, weights_out=weights_out, models=models)

    def _buffer(self, spec: RoleSpec, past: Past) -> Host:
        g = spec.group
        inlet = self._inlet(names.chunks(g))
        relay = self.network.relay(self.topology.addresses[names.batches(g)], self.edge, inlet)
        role = Buffer(spec.name, batch_chunks=self.config.gathered_chunks, of_each=self.config.on_policy)
        return self._host(role, Idle(), inlets={"chunks": inlet}, outlets={"batches": relay})

    def _actor(self, spec: RoleSpec, past: Past) -> Host:
        config, network, addresses = self.config, self.network, self.topology.addresses
        outlet = network.outlet(addresses[names.chunks(spec.group)], self.edge, spec.index)
        layout = self.edge.layout
        number = spec.group * config.actors + spec.index
        body = chunk_views(layout, outlet.slot)
        return self._host(
            Actor(
                spec.name,
                producer=spec.index,
                layout=layout.id,
                fresh_weights=config.on_policy,
                sequence=past.life * LIFE,
            ),
            Sampler(config, self.describe, layout, body, number, self.clock, life=past.life, steps=past.steps),
            outlets={"chunks": outlet},
            weights_in=network.weights_inlet(addresses[names.weights(spec.group)], self.parameters),
        )


def resume(role: Learner, worker: Trainer, state: State) -> None:
    """Let a learner go on where its predecessor was when it stored this.

    Raises
    ------
    ValueError
        when that was of another configuration.
    """
    values = state.values
    worker.restore(State(state.arrays, values["algorithm"]))
    role.restore(values["learner"], replay_kept=values["replay"])


def learner(spec: RoleSpec, config: TrainConfig, layout: int, port: str, *, saves: bool = False) -> Learner:
    """The learner of a configuration."""
    # Actors that wait for fresh weights need no other credit.
    mode = "one-sided" if config.on_policy else config.balance
    membership = None
    if has_root(config):
        membership = Membership(spec.group, config.groups, config.fusion_rounds, waits=config.on_policy)
    return Learner(
        spec.name,
        port=port,
        layout=layout,
        balance=Balance(
            mode,
            round_chunks=config.round_chunks,
            chunk_samples=config.chunk_samples,
            reuse=config.reuse,
            producers=config.actors,
            slots=config.actors * config.chunk_slots,
            batch_chunks=config.gathered_chunks,
            lag_rounds=None if config.on_policy else config.most_lag_rounds,
            free_samples=config.dqn.learning_starts if config.algo == "dqn" else 0,
        ),
        staleness=StalenessLedger(
            config.most_lag_rounds,
            measured=config.lag_is_measured,
            least=LEAST_LAG_ROUNDS.get(config.algo, 0),
            correct=config.beyond_bound == "correct",
        ),
        reuses=config.algo == "dqn",
        # Groups that wait for each other do as much each.
        budget_steps=config.stop_steps // (config.groups if config.on_policy else 1),
        # One learner speaks for all: its steps are those of all groups.
        snapshot_every_steps=config.snapshot_every_steps if spec.group == 0 else None,
        membership=membership,
        saves=saves,
    )
