"""Evidence: from two signatures to numbers, and from numbers to a verdict; NumPy and SciPy only."""
