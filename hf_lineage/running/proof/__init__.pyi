from .outcome import Proof as Proof
from .proving import prove as prove
