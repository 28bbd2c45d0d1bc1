"""Testbeds: the nodes on which runs take place."""
