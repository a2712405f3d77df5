"""Property tests: cases that Hypothesis draws, always the same ones, so that what passes once passes again."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st


def cases(count: int, **others: Any) -> settings:
    """Return settings for so many cases, none of which depends on the machine or on an earlier run."""
    fixed: dict[str, Any] = {"derandomize": True, "database": None, "deadline": None}
    return settings(max_examples=count, suppress_health_check=list(HealthCheck), **fixed | others)


ANY_TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=()), st.sampled_from("<>&\"'`*_[]()#@!|~$\\:/w.-+= \t\n\r\x1b\x85\u202e\u2028")
    )
)
"""Text with whatever Unicode has, halves of surrogate pairs among it, and with much of what markup is made of."""
