"""What a run leaves, and where it is kept: bundles, events, sealed sessions, the machine."""
