from .blocks import Block as Block
from .blocks import block as block
from .blocks import compressed as compressed
from .blocks import product_rows as product_rows
from .gradient_alignment import Trace as Trace
from .gradient_alignment import trace as trace
