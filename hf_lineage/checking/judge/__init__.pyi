from .claims import Base as Base
from .claims import Candidate as Candidate
from .claims import as_merge as as_merge
from .claims import base_once as base_once
from .claims import judge_claim as judge_claim
from .claims import judge_pair as judge_pair
from .claims import opened_once as opened_once
from .claims import whole_base as whole_base
