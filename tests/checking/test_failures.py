"""An error of a base becomes a verdict, of the narrowest kind that there is; what nobody expected stays an error."""

import pytest

from hf_lineage.checking.result import VERDICTS, attempt
from hf_lineage.errors import CheckpointError, LineageError, NetworkError, NothingToCompare, NoWeights, RepositoryError
from hf_lineage.evidence.verdict import Code, ExitCode


def failing(error):
    def action():
        raise error

    return action


def test_what_an_action_returns_is_returned():
    assert attempt(lambda: "signature", *VERDICTS) == "signature"


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (NoWeights("org/base holds no weights"), Code.NO_WEIGHTS, ExitCode.UNDECIDED),
        (RepositoryError("org/base is gated"), Code.NO_BASE, ExitCode.UNDECIDED),
        (CheckpointError("org/base is truncated"), Code.DAMAGED, ExitCode.ERROR),
    ],
)
def test_an_expected_error_is_a_verdict_with_its_reason(error, kind, code):
    found = attempt(failing(error), *VERDICTS)
    assert (found.code, found.reason, found.exit_code) == (kind, str(error), code)


@pytest.mark.parametrize(
    "error", [RepositoryError("gone"), CheckpointError("damaged"), NetworkError("cut"), ValueError("ours")]
)
def test_an_error_that_was_not_expected_is_raised(error):
    with pytest.raises(type(error)) as found:
        attempt(failing(error), NothingToCompare)
    assert found.value is error


def test_a_network_that_fails_is_no_verdict_on_any_model():
    assert not any(issubclass(NetworkError, kind) for kind in VERDICTS)
    assert LineageError not in VERDICTS


def test_an_error_of_a_narrower_kind_has_the_verdict_of_its_kind():
    class Pickled(NothingToCompare):
        """A subclass, as somebody may add one."""

    assert attempt(failing(Pickled("a pickle")), NothingToCompare).code is Code.UNSUPPORTED
