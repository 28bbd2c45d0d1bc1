"""Sessions of any suite: plan, runner, progress, certificate, evaluation of snapshots."""
