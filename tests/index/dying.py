"""Tasks that end their worker or keep it; a process that runs them imports nothing else."""

import os
import time
from pathlib import Path


def dies(job):
    return os._exit(1) if job == "org/large" else job


def waits(file):
    Path(file).touch()
    if file.endswith("long"):
        time.sleep(300)
