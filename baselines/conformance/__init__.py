"""Conformance of systems under test: short trainings, observed from outside, and what is checked in them."""
