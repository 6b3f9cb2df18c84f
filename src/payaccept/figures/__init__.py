"""Figures for operators: what the processes count, and how Prometheus reads it.

Counting is a few additions to memory; reading it, naming it and serving it happen elsewhere:

- `catalogue`: every figure with its labels, the one list that documentation and dashboards are checked against;
- `slab`: the memory that a process counts in, which outlives the process when it stands in a file;
- `requests`, `deliveries`, `sampling`: where the processes' events become counts;
- `exposition`: an HTTP address of its own, and the text that Prometheus reads there.
"""
