"""Builds one role's host: its state machine, its worker and its ends of the edges."""

from __future__ import annotations

import time
from functools import cached_property

from tianji.balance import Balance
from tianji.channel.registry import Network
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.roles.actor import Actor
from tianji.roles.buffer import Buffer
from tianji.roles.learner import Learner, Membership
from tianji.roles.root import Root
from tianji.staleness import StalenessLedger
from tianji.telemetry import Clock, Sink
from tianji.topology import RoleSpec, Topology, chunk_edge, has_root, model_size, parameters
from tianji.worlds.averager import Averager
from tianji.worlds.host import Host, Models, Trace
from tianji.worlds.sampler import Sampler
from tianji.worlds.trainer import Trainer
from tianji.worlds.workers import Idle, chunk_views


class Assembler:
    """Builds the hosts of one run.

    Parameters
    ----------
    pace
        the time that roles are told of; see `Host`.
    trace
        is told everything that roles hear and do.
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
    ) -> None:
        self.config, self.describe, self.topology, self.network = config, describe, topology, network
        self.tell, self.pace, self.trace = tell, pace, trace
        self.clock = time.monotonic_ns
        self.edge = chunk_edge(config, describe)

    @cached_property
    def parameters(self) -> int:
        """Length of the vector of weights: a buffer, which has none, need not make a user's network to know it."""
        return parameters(self.config, self.describe)

    def build(self, spec: RoleSpec) -> Host:
        """One role's host."""
        host = {"root": self._root, "learner": self._learner, "buffer": self._buffer, "actor": self._actor}[spec.kind](spec)
        host.trace = self.trace
        return host

    def _root(self, spec: RoleSpec) -> Host:
        config, topology, network = self.config, self.topology, self.network
        size = model_size(config, self.describe)
        worker = Averager(self.parameters, config.groups, self.clock)
        inlets = {str(g): network.weights_inlet(topology.model(g), size) for g in range(config.groups)}
        return Host(
            Root(spec.name, groups=config.groups, waits=config.on_policy),
            worker,
            self.tell,
            self.clock,
            self.pace,
            models=Models(worker, inlets, network.weights_outlet(topology.mean, size)),
        )

    def _learner(self, spec: RoleSpec) -> Host:
        config, topology, network, g = self.config, self.topology, self.network, spec.group
        port = topology.learner_port
        inlet = network.inlet(topology.batches(g) if port == "batches" else topology.chunks(g), self.edge)
        worker = Trainer(config, self.describe, chunk_views(self.edge.layout, inlet.body), self.clock)
        models = None
        if has_root(config):
            size = model_size(config, self.describe)
            models = Models(
                worker,
                {"root": network.weights_inlet(topology.mean, size)},
                network.weights_outlet(topology.model(g), size),
            )
        return Host(
            learner(spec, config, self.edge.layout.id, port),
            worker,
            self.tell,
            self.clock,
            self.pace,
            inlets={port: inlet},
            weights_out=network.weights_outlet(topology.weights(g), self.parameters),
            models=models,
        )

    def _buffer(self, spec: RoleSpec) -> Host:
        topology, network, g = self.topology, self.network, spec.group
        inlet = network.inlet(topology.chunks(g), self.edge)
        return Host(
            Buffer(spec.name, batch_chunks=batch_chunks(self.config)),
            Idle(),
            self.tell,
            self.clock,
            self.pace,
            inlets={"chunks": inlet},
            outlets={"batches": network.relay(topology.batches(g), self.edge, inlet)},
        )

    def _actor(self, spec: RoleSpec) -> Host:
        config, topology, network, g = self.config, self.topology, self.network, spec.group
        outlet = network.outlet(topology.chunks(g), self.edge, spec.index)
        layout = self.edge.layout
        number = g * config.actors + spec.index
        return Host(
            Actor(spec.name, producer=spec.index, layout=layout.id, fresh_weights=config.on_policy),
            Sampler(config, self.describe, layout, chunk_views(layout, outlet.slot), number, self.clock),
            self.tell,
            self.clock,
            self.pace,
            outlets={"chunks": outlet},
            weights_in=network.weights_inlet(topology.weights(g), self.parameters),
        )


def batch_chunks(config: TrainConfig) -> int:
    """Chunks that a buffer gathers."""
    return config.batch_chunks or (config.actors if config.on_policy else 1)


def learner(spec: RoleSpec, config: TrainConfig, layout: int, port: str) -> Learner:
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
            slots=config.actors * config.chunk_slots,
            batch_chunks=batch_chunks(config) if config.buffer else 1,
            lag_rounds=None if config.lag_limit is None or config.on_policy else config.lag_limit // config.round_updates,
            free_samples=config.dqn.learning_starts if config.algo == "dqn" else 0,
        ),
        staleness=StalenessLedger(config.lag_limit, correct=config.beyond_bound == "correct"),
        reuses=config.algo == "dqn",
        budget_steps=config.stop_steps // config.groups,
        # One learner speaks for all: its steps are those of all groups.
        snapshot_every_steps=config.snapshot_every_steps if spec.group == 0 else None,
        membership=membership,
    )
