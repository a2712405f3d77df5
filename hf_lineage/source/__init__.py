"""Source: the meaning of a name, the contents of a repository, and the model in it, whose headers are read."""
