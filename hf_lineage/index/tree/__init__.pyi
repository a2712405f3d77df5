from . import tree as tree
from .relatives import FAMILY as FAMILY
from .relatives import SELF as SELF
from .relatives import Member as Member
from .relatives import plain as plain
from .tree import Edge as Edge
from .tree import Mark as Mark
from .tree import Tree as Tree
