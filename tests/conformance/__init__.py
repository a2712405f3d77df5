"""The harness that proves a factorization: every branch product against what the real transformers module computes.

A tiny random model of the class is saved and read back like any checkpoint. The module itself then runs with known
vectors put in where a branch reads, and what it gives out where the branch writes has to be the product times them.
Nothing here multiplies two weights: activations are made transparent, attention sees one token, the rest is the
module's own code. Rows of a Hadamard matrix are the known vectors, because a norm leaves them as they are (mean 0,
except for the first, and mean square 1), so the same run with vectors put in before the norm proves the folded gains.

Beside it stands what each class is asked for beyond the generic request.
"""
