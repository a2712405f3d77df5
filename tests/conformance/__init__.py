"""The harness that proves a factorization: every branch product against what the real transformers module computes.

A tiny random model is saved and read back. The module itself runs with known vectors put in where a branch reads, and
what it gives out where the branch writes has to be the product times them: activations are made transparent, attention
sees one token. They are rows of a Hadamard matrix, which a norm leaves as they are, so that put in before the norm they
prove the folded gains.
"""
