"""Sources of signatures other than the weights: the cache of this machine, and what is published on the Hub."""
