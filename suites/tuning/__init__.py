"""Tuning for the open division: a few short runs of one system on one workload, and the settings that they speak for."""
