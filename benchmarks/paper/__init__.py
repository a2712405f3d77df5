"""Every table and figure of the paper, reproduced: `python -m benchmarks.paper --help`.

`items` has one module for each experiment, found by itself; `parts` is what they share.
"""
