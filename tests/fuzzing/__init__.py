"""Fuzzers of everything that is read: `tests/test_fuzzing.py` runs some cases of each reader, `make fuzz` a million."""
