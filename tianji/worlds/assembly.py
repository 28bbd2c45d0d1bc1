"""Builds one role's host: its state machine, its worker and its ends of the edges."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tianji.channel.registry import Network, SharedWeights
from tianji.config import TrainConfig
from tianji.envs import EnvDescription
from tianji.messages import SlotRef
from tianji.roles.actor import Actor
from tianji.roles.buffer import Buffer
from tianji.roles.learner import Learner
from tianji.telemetry import Sink
from tianji.topology import RoleSpec, Topology, chunk_layout
from tianji.worlds.host import Host
from tianji.worlds.workers import Idle, Sampler, Trainer, chunk_views


def assemble(
    spec: RoleSpec,
    config: TrainConfig,
    describe: EnvDescription,
    topology: Topology,
    network: Network,
    memory: Callable[[SlotRef], Any],
    shared: SharedWeights | None,
    tell: Sink,
) -> Host:
    """Build a host.

    Parameters
    ----------
    memory
        from the name of a slot to its memory.
    shared
        where `ipc` weights stand; None for `memory`.
    """
    layout = chunk_layout(config, describe)
    body = chunk_views(layout, memory)
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
            uri = topology.batches_uri if port == "batches" else topology.chunks_uri
            return Host(
                role,
                Trainer(config, describe, body, clock),
                tell,
                clock,
                inlets={port: network.inlet(uri)},
                weights_out=network.weights_outlet(topology.weights_uri, shared),
            )
        case "buffer":
            return Host(
                Buffer(spec.name, batch_chunks=config.actors),
                Idle(),
                tell,
                clock,
                inlets={"chunks": network.inlet(topology.chunks_uri)},
                outlets={"batches": network.outlet(topology.batches_uri)},
            )
        case "actor":
            slots = [SlotRef(spec.index, slot) for slot in range(config.chunk_slots)]
            return Host(
                Actor(spec.name, producer=spec.index, layout=layout.id, fresh_weights=config.on_policy),
                Sampler(config, describe, layout, body, spec.index, clock),
                tell,
                clock,
                outlets={"chunks": network.outlet(topology.chunks_uri, slots)},
                weights_in=network.weights_inlet(topology.weights_uri, shared, spec.index),
            )
