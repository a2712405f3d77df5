from .blend import read_matrices as read_matrices
from .contributions import with_shares as with_shares
from .declared import is_named as is_named
from .declared import names_in as names_in
from .declared import parts_notes as parts_notes
from .declared import relation_notes as relation_notes
from .derivation import derived as derived
from .quotes import quoted as quoted
