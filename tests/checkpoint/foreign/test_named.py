"""Named: the two names of a tensor, and nothing more."""

from hf_lineage.checkpoint.foreign.named import Named


def test_a_tensor_to_which_nothing_was_done_has_two_names():
    assert Named("a", "b") == Named(name="a", stored="b", undo=None)
