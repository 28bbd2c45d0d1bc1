"""Actor, Buffer and Learner as state machines without I/O: events in, effects out."""
