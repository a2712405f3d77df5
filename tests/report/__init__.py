"""Tests of reports; what they share asserts as clearly as they do."""

import pytest

pytest.register_assert_rewrite("tests.whole")
