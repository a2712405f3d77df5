"""Forgers that are not told how: every class, every setting, every small tensor, and the outputs of the real module.

`tests/test_forging.py` tries a few hundred cases; `python -m tests.forging` as many as there is time for.
"""
