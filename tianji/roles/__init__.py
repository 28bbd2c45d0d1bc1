"""Roles (Actor, Buffer, Learner, Root) as state machines without I/O: events in, effects out."""
