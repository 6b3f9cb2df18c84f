"""The benchmark: `make bench`, or `python -m bench`."""
