"""Controls: a comparison beside models whose ancestry is known, in every format that shows it."""
