"""What a run does when its environment fails: one run for each fault, actor and algorithm (`python -m benchmarks.faults`)."""
