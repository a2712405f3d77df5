"""The Dockerfile: what it copies is there, what it runs as has no rights; `make lint` reads the whole of it."""

import re

from tests.github import ROOT

FOLDER = ROOT / "examples/docker"
LINES = re.sub(r"\\\n\s*", "", (FOLDER / "Dockerfile").read_text("utf-8")).splitlines()
STEPS = [tuple(line.split(" ", 1)) for line in LINES if line and not line.startswith("#")]


def copied():
    return [
        source
        for step, rest in STEPS
        if step == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]


def test_what_it_copies_is_there_and_is_not_kept_from_the_builder():
    allowed = re.findall(r"^!(.+)$", (FOLDER / "Dockerfile.dockerignore").read_text("utf-8"), re.MULTILINE)
    assert set(copied()) == set(allowed)
    assert [name for name in copied() if not (ROOT / name).exists()] == []


def test_everything_that_the_package_is_built_from_is_copied():
    built = (ROOT / "pyproject.toml").read_text("utf-8")
    assert {"hf_lineage", "registry", "README.md", "LICENSE"} <= set(copied())
    assert 'packages = ["hf_lineage"]' in built
    assert 'registry = "hf_lineage/data/registry"' in built


def test_it_runs_as_a_user_without_rights_and_only_the_command():
    assert [rest for step, rest in STEPS if step == "USER"] == ["10001:10001"]
    assert ("ENTRYPOINT", '["hf-lineage"]') in STEPS
    assert STEPS.index(("USER", "10001:10001")) < STEPS.index(("ENTRYPOINT", '["hf-lineage"]'))


def test_packages_are_installed_by_their_hashes_alone():
    installs = [rest for step, rest in STEPS if step == "RUN" and "pip install" in rest]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--no-index" in installs[1]
