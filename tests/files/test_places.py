"""Caches and trusted files lie outside what is checked: git writes files of any author as the user who runs it."""

import os
from pathlib import Path

import pytest

from hf_lineage.errors import OptionError
from hf_lineage.files import places
from hf_lineage.files.places import configuration, outside_checkouts, refuse_within


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "checkout/inner").mkdir(parents=True)
    (tmp_path / "checkout/.git").mkdir()
    return tmp_path / "checkout"


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for variable in places.TRUSTED:
        monkeypatch.delenv(variable, raising=False)


class TestOutsideCheckouts:
    def test_a_place_outside_is_returned_and_need_not_be_there(self, tmp_path, monkeypatch):
        assert outside_checkouts(places.CACHE) is None
        monkeypatch.setenv(places.CACHE, str(tmp_path / "cache"))
        assert outside_checkouts(places.CACHE) == tmp_path / "cache"
        monkeypatch.setenv(places.CACHE, "~/cache")
        assert outside_checkouts(places.CACHE) == Path.home() / "cache"

    @pytest.mark.parametrize("place", [".", "cache", "inner/deep/cache", "inner/../cache"])
    def test_a_place_in_a_git_checkout_is_refused(self, checkout, monkeypatch, place):
        monkeypatch.setenv(places.CACHE, str(checkout / place))
        with pytest.raises(OptionError) as error:
            outside_checkouts(places.CACHE)
        assert str(error.value) == (
            f"HF_LINEAGE_CACHE names a place in the git checkout {checkout}, whose authors could then decide what is "
            "trusted; set it to one outside"
        )

    def test_a_link_changes_nothing_in_either_direction(self, checkout, tmp_path, monkeypatch):
        """A checkout may lead a cache to a folder of its own, and a folder outside may be a link into it."""
        (checkout / "out").symlink_to(tmp_path)
        (tmp_path / "in").symlink_to(checkout)
        for place in (checkout / "out/cache", tmp_path / "in/cache"):
            monkeypatch.setenv(places.CACHE, str(place))
            with pytest.raises(OptionError, match="names a place in the git checkout"):
                outside_checkouts(places.CACHE)

    def test_a_relative_place_is_one_of_the_working_directory(self, checkout, monkeypatch):
        monkeypatch.chdir(checkout / "inner")
        monkeypatch.setenv(places.INDEX, "index")
        with pytest.raises(OptionError, match="HF_LINEAGE_INDEX names a place in the git checkout"):
            outside_checkouts(places.INDEX)

    def test_a_worktree_and_a_submodule_are_checkouts(self, checkout, monkeypatch):
        (checkout / ".git").rmdir()
        (checkout / ".git").write_text("gitdir: elsewhere")
        monkeypatch.setenv(places.CACHE, str(checkout / "cache"))
        with pytest.raises(OptionError):
            outside_checkouts(places.CACHE)


class TestRefuseWithin:
    @pytest.mark.parametrize("variable", places.TRUSTED)
    def test_no_trusted_place_lies_in_the_folder_of_a_model(self, tmp_path, monkeypatch, variable):
        (tmp_path / "model").mkdir()
        monkeypatch.setenv(variable, str(tmp_path / "model/cache"))
        with pytest.raises(OptionError, match=f"{variable} names a place in .*model .with the model that is checked"):
            refuse_within(tmp_path / "model")
        monkeypatch.setenv(variable, str(tmp_path / "models"))
        refuse_within(tmp_path / "model")

    def test_nor_in_the_checkout_around_it(self, checkout, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_HOME", str(checkout / ".hf"))
        refuse_within(tmp_path / "elsewhere")
        for folder in (checkout / "inner", checkout):
            with pytest.raises(OptionError, match=r"HF_HOME names a place in .*checkout .with the model"):
                refuse_within(folder)

    def test_what_is_there_by_default_is_never_refused(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".git").mkdir()
        refuse_within(tmp_path)
        assert configuration() == tmp_path / ".config/hf-lineage"


@pytest.mark.parametrize("variable", [places.CACHE, places.INDEX, places.CONFIGURATION])
def test_the_home_of_nobody_is_an_error_that_names_the_variable(monkeypatch, variable):
    monkeypatch.setenv(variable, "~nouser/x")
    use = configuration if variable == places.CONFIGURATION else lambda: outside_checkouts(variable)
    with pytest.raises(OptionError) as error:
        use()
    assert str(error.value) == (f"~nouser/x names the home folder of a user who has none; set {variable} to a path")


@pytest.mark.skipif(os.name == "nt", reason="the home is found in another way")
def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    def nobody(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nobody)
    with pytest.raises(OptionError, match="set XDG_CONFIG_HOME to a path"):
        configuration()
