"""Architecture: from the registry to the place of every matrix of a model."""
