from .sample import Runs as Runs
from .sample import Sample as Sample
from .sample import fits as fits
from .sample import indices as indices
from .sample import runs as runs
from .sample import sampled as sampled
from .whole import extract_paths as extract_paths
