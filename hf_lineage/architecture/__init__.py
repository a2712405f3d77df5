"""Architecture: from the registry to where every matrix of a model is."""
