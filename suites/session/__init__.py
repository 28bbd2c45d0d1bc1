"""Runs a session of any suite: plan, runner, progress, certificate, evaluation of snapshots."""
