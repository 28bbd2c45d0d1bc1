"""Records of runs: bundles, events, sealed sessions, and descriptions of the machine."""
