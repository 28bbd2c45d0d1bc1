"""`train(config) -> Result`, the Python entry point."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from programs.cli import ConfigError, interrupt
from tianji.algorithms import networks, updaters
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.environments.forms import describe
from tianji.environments.probe import describe_apart
from tianji.environments.vector_form import shipped
from tianji.faults import Unknown, told
from tianji.launch import descriptors
from tianji.launch.events import Heard, RoleFailed, Trouble
from tianji.launch.job import Job, steps_of
from tianji.launch.node import Cluster
from tianji.run.evaluations import Evaluations
from tianji.run.watch import Result, Watch
from tianji.run_folder import (
    RunFolder,
    episodes_path,
    mend_state,
    read_values,
    sound_state,
    state_path,
    stored_parameters,
    write_json,
)
from tianji.topology import lay_out, parameters
from tianji.worlds import episodes, lockstep
from tianji.worlds.assembly import Store, learner


def check(config: TrainConfig, tell: Callable[[str], object] = lambda text: None) -> EnvDescription:
    """Make the environment and the network once, and check that this configuration can be trained here.

    Parameters
    ----------
    tell
        is told in one line of a call into the environment that takes long.

    Raises
    ------
    ConfigError
        if the slots hold no round, the environment is not supported, the network does not fit the environment, the algorithm
        or the updater, or the device, the launcher or file descriptors are missing.
    """
    config.rule.check()
    description = _described(config, tell)
    if config.placement == "actor" and config.world == "real" and not description.shipped:
        raise ConfigError(
            f"placement actor: environment {config.env} would share a process with the learner, and end it if it fails; leave "
            "placement at auto"
        )
    updaters.check(config, networks.of(config, description))
    if config.device == "cuda" and config.launcher == "local":
        import torch

        if not torch.cuda.is_available():
            raise ConfigError("device cuda: torch finds no CUDA device here; use --device cpu")
    if config.launcher == "local" and config.world == "real":
        descriptors.ensure(config)
    if config.launcher == "ray" and importlib.util.find_spec("ray") is None:
        raise ConfigError("launcher ray: Ray is not installed; pip install 'tianji-bench[ray]' brings it")
    return description


def _described(config: TrainConfig, tell: Callable[[str], object]) -> EnvDescription:
    """Describe the environment: in this process if it is shipped or if the run is in this process, else in one of its own."""
    sizes, settings, lanes = (config.atari, config.simulator), config.environment, config.envs_per_actor
    if config.world == "lockstep" or shipped(config.env, settings):
        found = describe(config.env, lanes, *sizes, settings)
    else:
        found = describe_apart(config.env, *sizes, config.silence_seconds, tell, settings, lanes)
    try:
        actions = found.actions.under(config.actions)
    except ValueError as error:
        raise ConfigError(f"environment {config.env}: {error}") from None
    normalised = config.normalise.observations
    return replace(found, actions=actions, normalised=normalised).seen_by(
        networks.suited(config.network, config.algo, found).kind
    )


def settled(config: TrainConfig, description: EnvDescription) -> TrainConfig:
    """The configuration with what follows from the environment: its form, the kind of network, and who shares a process.

    Unless it is shipped, an environment is kept out of the learner's process. The form is settled, because a resumed run must
    not measure again.
    """
    placement = "buffer" if config.placement == "auto" and not description.shipped else config.placement
    network = networks.suited(config.network, config.algo, description)
    return msgspec.structs.replace(formed(config, description), placement=placement, network=network)


def formed(config: TrainConfig, description: EnvDescription) -> TrainConfig:
    """The configuration with the form of the environment that was chosen if `environment.vector` is `auto`."""
    if config.environment.vector != "auto":
        return config
    environment = msgspec.structs.replace(config.environment, vector="always" if description.autoreset else "never")
    return msgspec.structs.replace(config, environment=environment)


def train(
    config: TrainConfig,
    listener: Callable[[Any], object] | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    cluster: Cluster | None = None,
) -> Result:
    """Train, and return when a limit is reached or Ctrl-C is pressed.

    Parameters
    ----------
    listener
        receives every message of the roles and their supervisor (see `tianji.messages`). The run ends when it returns a
        string, which is the reason.
    out
        new or empty folder of the run (see `tianji.run_folder`). None: nothing is kept.
    resume
        continue from the last checkpoint in `out`, or from the one before if it is damaged. Environments begin new episodes.
    cluster
        nodes over which the run is spread: emulated ones of this machine or, with launcher `ray`, that many of Ray's (with
        ray_placement STRICT_SPREAD).

    Raises
    ------
    ConfigError
        as `check`, and for a folder that is not empty or holds no checkpoint.
    tianji.launch.events.RoleFailed
        if a role's process fails more often than it may be restarted.
    """
    # The environment may change the working directory.
    folder = None if out is None else RunFolder(Path(out).absolute())
    if resume and folder is None:
        raise ConfigError("resume: there is no folder to go on from")
    if resume and folder is not None and config.auto is not None and (choice := folder.read_choice()) is not None:
        config = config.under(choice)
    if resume and folder is not None and config.environment.vector == "auto":
        # It was measured when the run began.
        settled_form = folder.read_config().environment.vector
        config = msgspec.structs.replace(config, environment=msgspec.structs.replace(config.environment, vector=settled_form))

    def tell(text: str) -> None:
        if listener is not None:
            listener(Trouble("", text, time.monotonic_ns()))

    description = check(config, tell)
    config = settled(config, description)
    if folder is not None and not resume:
        folder.create(config)
    with ExitStack() as held:
        if folder is not None:
            held.enter_context(folder.locked())
        if folder is not None and resume:
            for group in range(config.groups):
                if mended := mend_state(state_path(folder.state, group)):
                    tell(mended)
            check_state(folder, config, description)
        try:
            return _train(config, description, listener, folder, cluster, resume=resume)
        except RoleFailed as error:
            if not error.trace:
                raise
            raise RoleFailed(f"{error}; its traceback is in {_kept(error.trace, folder)}", error.trace) from None


def _kept(trace: str, folder: RunFolder | None) -> Path:
    """Write a traceback to the run's folder or to a temporary file, and return its path."""
    if folder is not None:
        folder.traceback.write_text(trace, encoding="utf-8")
        return folder.traceback
    descriptor, path = tempfile.mkstemp(prefix="tianji-traceback-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(trace)
    return Path(path)


def _train(
    config: TrainConfig,
    description: EnvDescription,
    listener: Callable[[Any], object] | None,
    folder: RunFolder | None,
    cluster: Cluster | None,
    *,
    resume: bool,
) -> Result:
    watch = Watch(config, description, listener, folder, resume=resume)
    with ExitStack() as held:
        if config.evaluation.every_steps is not None:
            watch.evaluations = evaluations = Evaluations(config, description)
            held.callback(evaluations.close)
        _run(config, description, watch, folder, cluster, resume=resume)
        watch.finish()
    result = watch.result()
    if folder is not None:
        watch.save_progress(time.monotonic_ns())
        write_json(folder.result, {**result.summary(), "config": msgspec.to_builtins(config)})
    return result


def _run(
    config: TrainConfig,
    description: EnvDescription,
    watch: Watch,
    folder: RunFolder | None,
    cluster: Cluster | None,
    *,
    resume: bool,
) -> None:
    """Run to the end, in this process or in those of a job."""
    try:
        if config.world == "lockstep":
            _run_lockstep(config, description, watch, folder, resume=resume)
        else:
            # A resumed run needs the state, also if it stores none itself.
            uses = folder is not None and (resume or config.checkpoint_seconds is not None)
            Job(config, description, folder.state if folder is not None and uses else None, resume, cluster).run(watch)
    except KeyboardInterrupt:
        watch.outcome = "interrupted"


def check_state(
    folder: RunFolder, config: TrainConfig, description: EnvDescription, tell: Callable[[str], object] | None = None
) -> None:
    """Check, before anything starts, that the run can be resumed from this folder.

    Parameters
    ----------
    tell
        is told in a line where a run would go on from the state before, which nothing is done about. None: all are mended.
    """
    specs = {spec.group: spec for spec in lay_out(config) if spec.kind == "learner"}
    for group in range(config.groups):
        path = state_path(folder.state, group)
        if tell is not None:
            path, why = sound_state(path)
            if why is not None:
                tell(why)
        if stored_parameters(path) != parameters(config, description):
            raise ConfigError(f"{path}: is of another network; resume a run with the settings it began with")
        try:
            # As its learner will do.
            values = read_values(path)
            learner(specs[group], config, 0, "chunks").restore(values["learner"], replay_kept=bool(values["replay"]))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{path}: damaged state: {type(error).__name__}: {error}") from None


def _run_lockstep(
    config: TrainConfig, description: EnvDescription, watch: Watch, folder: RunFolder | None, *, resume: bool
) -> None:
    store, saves = None, config.checkpoint_seconds is not None
    if folder is not None and (saves or resume):
        store = Store(str(folder.state.absolute()), resume, saves)
    past = None
    if store is not None and resume:
        found = [episodes.past(config, Path(store.folder), g, steps_of(store, g)) for g in range(config.groups)]
        past = [actors for actors, _ in found]
        if why := next(filter(None, (why for _, why in found)), None):
            watch(Trouble("", f"it does not go on to the last bit: {why}", time.monotonic_ns()))
    with _interrupts_noted() as interrupted:
        timed, reasons = _with_time_limit(watch, config.stop_seconds), list[str]()

        def heard(message: Heard) -> str | None:
            reason = timed(message) or ("interrupted" if interrupted() else None)
            reasons.extend([reason] if reason else [])
            return reason

        try:
            if config.auto is not None:
                heard(config.auto.unmeasured("in lockstep there are no times to choose by"))
            lockstep.run(config, description, heard, store=store, past=past)
        except Unknown as error:
            assert folder is not None
            raise ConfigError(f"{episodes_path(folder.state, 0)}: no state of environments of this run: {error}") from None
        except Exception as error:
            raise RoleFailed(told(error), traceback.format_exc()) from error
        if reasons[:1] == ["interrupted"]:
            raise KeyboardInterrupt


@contextmanager
def _interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Context in which the first interrupt is only noted, so that roles can end in order. A second one interrupts at once.

    It works in the main thread only.
    """
    noted: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(signum)

    before = {}
    if threading.current_thread() is threading.main_thread():
        # Any other handler is the caller's, and stays.
        interrupting = (signal.default_int_handler, interrupt)
        handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
        before = {signum: handler for signum, handler in handlers.items() if handler in interrupting}
    try:
        for signum in before:
            signal.signal(signum, note)
        yield lambda: bool(noted)
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _with_time_limit(watch: Watch, stop_seconds: float | None) -> Callable[[Any], str | None]:
    """Listener with a time limit, for the lockstep world, which has no launcher with a clock."""
    if stop_seconds is None:
        return watch
    deadline = time.monotonic() + stop_seconds

    def timed(message: Heard) -> str | None:
        return watch(message) or ("seconds" if time.monotonic() >= deadline else None)

    return timed
