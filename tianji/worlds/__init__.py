"""Drivers that run the roles: real processes, or all roles in lockstep in one."""
