"""A parent that gave a part is declared, or it is not."""

from hf_lineage.checking.results.blended import Blended
from hf_lineage.evidence.derivation.blend import Blend, Made
from hf_lineage.evidence.derivation.contributions import Share, Shares

SHARE = Share(0.5, 0.49, 0.51, {}, detected=True)


def blended(made, named):
    return Blended(("a", "b"), Blend(Shares((SHARE, SHARE), 0.0), {}, 1.0, 1.0, made), named)


def test_a_parent_that_gave_a_part_and_is_not_named_is_undeclared():
    assert blended((Made.BLEND, Made.BLEND), (True, False)).undeclared == ("b",)
    assert blended((Made.BLEND, Made.BLEND), (True, True)).undeclared == ()


def test_a_share_alone_makes_nobody_a_parent():
    for made in (Made.ASIDE, Made.NEAR, Made.HIDDEN, Made.PIECES, Made.FROM_MODEL, Made.NONE):
        assert blended((made, made), (False, False)).undeclared == ()
