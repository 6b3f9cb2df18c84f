"""Decisions: no I/O, no await, no clock."""
