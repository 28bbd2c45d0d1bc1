"""What is measured, and how: workloads, the runner, bundles, the evaluator and the statistics."""
