"""The signed merchant API."""
