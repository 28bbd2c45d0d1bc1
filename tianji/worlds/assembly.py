"""Builds one role's host: its state machine, its worker and its ends of the edges."""

from __future__ import annotations

import time

from tianji.channel.registry import Network
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.roles.actor import Actor
from tianji.roles.buffer import Buffer
from tianji.roles.learner import Learner
from tianji.telemetry import Sink
from tianji.topology import RoleSpec, Topology, chunk_edge, parameters
from tianji.worlds.host import Host
from tianji.worlds.sampler import Sampler
from tianji.worlds.trainer import Trainer
from tianji.worlds.workers import Idle, chunk_views


def assemble(
    spec: RoleSpec, config: TrainConfig, describe: EnvDescription, topology: Topology, network: Network, tell: Sink
) -> Host:
    """Build a host."""
    edge = chunk_edge(config, describe)
    layout = edge.layout
    clock = time.monotonic_ns
    match spec.kind:
        case "learner":
            port = topology.learner_port
            role = Learner(
                spec.name,
                port=port,
                layout=layout.id,
                round_chunks=config.actors,
                budget_steps=config.stop_steps,
                snapshot_every_steps=config.snapshot_every_steps,
                staleness_bound=0 if config.on_policy else None,
            )
            inlet = network.inlet(topology.batches_uri if port == "batches" else topology.chunks_uri, edge)
            return Host(
                role,
                Trainer(config, describe, chunk_views(layout, inlet.body), clock),
                tell,
                clock,
                inlets={port: inlet},
                weights_out=network.weights_outlet(topology.weights_uri, parameters(config, describe)),
            )
        case "buffer":
            inlet = network.inlet(topology.chunks_uri, edge)
            return Host(
                Buffer(spec.name, batch_chunks=config.actors),
                Idle(),
                tell,
                clock,
                inlets={"chunks": inlet},
                outlets={"batches": network.relay(topology.batches_uri, edge, inlet)},
            )
        case "actor":
            outlet = network.outlet(topology.chunks_uri, edge, spec.index)
            return Host(
                Actor(spec.name, producer=spec.index, layout=layout.id, fresh_weights=config.on_policy),
                Sampler(config, describe, layout, chunk_views(layout, outlet.slot), spec.index, clock),
                tell,
                clock,
                outlets={"chunks": outlet},
                weights_in=network.weights_inlet(topology.weights_uri, parameters(config, describe)),
            )
