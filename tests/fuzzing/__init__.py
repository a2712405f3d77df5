"""Fuzzers for everything that is read: valid files changed a little, and what must come out of them.

`tests/test_fuzzing.py` runs a few hundred cases of each reader; `make fuzz` runs as many as there is time for.
"""
