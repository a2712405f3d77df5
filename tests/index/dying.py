"""A task that ends its worker; a process that runs it imports nothing else."""

import os


def dies(job):
    return os._exit(1) if job == "org/large" else job
