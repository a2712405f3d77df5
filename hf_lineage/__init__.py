"""Tell from weights alone whether a model really comes from the base it declares.

Data flows one way:

    RepoRef -> Checkpoint -> Layout -> Branch terms -> Signature -> Evidence -> Verdict -> Report

`check` judges what a model declares, `compare` two models, `extract` and `load_signature` make and read signatures,
`inspect` measures one model by itself. Models are `org/name`, `org/name@revision`, or folders.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
