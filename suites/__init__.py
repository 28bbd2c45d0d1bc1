"""Benchmark suites: workloads, the runner, bundles, the evaluator and the statistics."""
