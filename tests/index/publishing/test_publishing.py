"""An index on the Hub: pushed on top of what others pushed, pulled, searched by its name."""

from dataclasses import replace

import pytest
from huggingface_hub import DatasetCard

from hf_lineage.errors import LineageError, OptionError, RepositoryError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.hub import commits, listing
from hf_lineage.index.publishing import publishing
from hf_lineage.index.search.identify import identify
from hf_lineage.index.storage.catalogue import Catalogue
from tests.server import serving
from tests.server.client import connect
from tests.server.commits import Commits

INDEX, OTHERS = "wren/index", ("otter/llama-independent", "acme/gpt2-base")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A Hub to which wren may write."""
    (tmp_path / "commits").mkdir()
    with serving() as hub:
        connect(hub, tmp_path / "cache", monkeypatch)
        monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
        listing.tree.cache_clear()
        yield Commits(hub, tmp_path / "commits").attach()


@pytest.fixture
def index(signatures, tmp_path):
    """Makes an index of some models, each at a commit."""

    def made(folder, *names):
        catalogue = Catalogue(tmp_path / folder)
        for name in names:
            catalogue.add(replace(signatures[name], commit="c0ffee" + "0" * 34))
        return catalogue

    return made


def models(catalogue):
    return sorted(entry.model for entry in catalogue.read().entries())


def files(server):
    folder = server.hub.published[INDEX]["main"]
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def test_what_was_pushed_is_pulled_and_tested_against(server, index, signatures):
    done = publishing.push(index("one", "acme/llama-base", *OTHERS), INDEX)
    assert (done.added, done.of, done.left_out) == (3, 3, 0)
    assert files(server)[0] == "README.md"
    assert len(files(server)) == 1 + 1 + 3
    pulled = index("two")
    result = publishing.pull(INDEX, pulled)
    assert (result.added, result.of, result.commit) == (3, 3, server.hub.commit(INDEX, "main"))
    assert models(pulled) == sorted(["acme/llama-base", *OTHERS])
    assert not (pulled.folder / "signatures").exists()
    found = identify(signatures["fern/llama-finetune-a"], "mlp", pulled, Criteria())
    assert [one.entry.model for one in found.related] == ["acme/llama-base"]
    assert len({part.file for part in server.hub.parts if "/signatures/" in part.file}) == 1


def test_what_is_there_is_not_sent_again(server, index):
    one = index("one", "acme/llama-base")
    publishing.push(one, INDEX)
    made = len(server.made)
    assert publishing.push(one, INDEX) == publishing.Pushed("", 0, 1, 0)
    assert len(server.made) == made
    publishing.pull(INDEX, one)
    assert publishing.pull(INDEX, one).added == 0
    assert models(one) == ["acme/llama-base"]


def test_two_who_push_at_the_same_time_lose_nothing(server, index, monkeypatch):
    """Another push arrives between what is read of the repository and what is written."""
    publishing.push(index("base", "acme/llama-base"), INDEX)
    other, send = index("other", "acme/gpt2-base"), commits.commit

    def meanwhile(*arguments, **where):
        monkeypatch.setattr(commits, "commit", send)
        publishing.push(other, INDEX)
        return send(*arguments, **where)

    monkeypatch.setattr(commits, "commit", meanwhile)
    done = publishing.push(index("mine", "otter/llama-independent"), INDEX)
    assert (done.added, done.of) == (1, 3)
    pulled = index("pulled")
    publishing.pull(INDEX, pulled)
    assert models(pulled) == sorted(["acme/llama-base", *OTHERS])
    card = server.file(INDEX, "main", "README.md").decode()
    assert "Keys and signatures of 3 models" in card


def test_many_files_of_keys_become_one(server, index, monkeypatch):
    monkeypatch.setattr(publishing, "JOINED", 2)
    for number, name in enumerate(["acme/llama-base", *OTHERS]):
        publishing.push(index(f"index {number}", name), INDEX)
    assert len([file for file in files(server) if file.startswith("keys/")]) == 1
    pulled = index("pulled")
    assert publishing.pull(INDEX, pulled).added == 3


def test_a_push_that_broke_off_goes_on_where_it_was(server, index, monkeypatch):
    monkeypatch.setattr(publishing, "AT_ONCE", 1)
    one, send, sent = index("one", "acme/llama-base", *OTHERS), commits.commit, []

    def breaking(*arguments, **where):
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(arguments)
        return send(*arguments, **where)

    monkeypatch.setattr(commits, "commit", breaking)
    with pytest.raises(KeyboardInterrupt):
        publishing.push(one, INDEX)
    with pytest.raises(RepositoryError, match="wren/index holds no index: there are no rows"):
        publishing.pull(INDEX, index("none"))
    monkeypatch.setattr(commits, "commit", send)
    made = len(server.made)
    assert publishing.push(one, INDEX).added == 3
    assert len(server.made) == made + 2  # one signature, then the keys


def test_the_card_is_valid_and_what_people_wrote_stays(server, index):
    publishing.push(index("one", "acme/llama-base"), INDEX)
    card = server.file(INDEX, "main", "README.md").decode()
    DatasetCard(card).validate()
    assert "Keys and signatures of 1 model." in card
    assert DatasetCard(card).data.to_dict()["configs"] == [{"config_name": "default", "data_files": "keys/*.parquet"}]
    server.push(INDEX, "main", {"README.md": card.replace("# Index of", "# Our own index of").encode()})
    publishing.push(index("two", "acme/gpt2-base"), INDEX)
    after = server.file(INDEX, "main", "README.md").decode()
    assert "# Our own index of" in after
    assert "Keys and signatures of 2 models" in after


def test_folders_are_left_out(server, signatures, index):
    one = index("one", "acme/llama-base")
    one.add(replace(signatures["acme/gpt2-base"], model="/home/wren/secret"))
    assert publishing.push(one, INDEX).left_out == 1
    pulled = index("pulled")
    publishing.pull(INDEX, pulled)
    assert models(pulled) == ["acme/llama-base"]


def test_an_index_at_an_earlier_commit_is_pulled_by_its_revision(server, index):
    publishing.push(index("one", "acme/llama-base"), INDEX)
    then = server.hub.commit(INDEX, "main")
    publishing.push(index("two", "acme/gpt2-base"), INDEX)
    pulled = index("pulled")
    assert publishing.pull(f"{INDEX}@{then}", pulled).of == 1
    assert [entry.source for entry in pulled.read().entries()] == [f"{INDEX}@{then}"]


def test_a_repository_serves_as_an_index_by_its_name(server, index, signatures):
    publishing.push(index("one", "acme/llama-base"), INDEX)
    found = identify(signatures["fern/llama-finetune-a"], "mlp", publishing.opened(INDEX), Criteria())
    assert [one.entry.model for one in found.related] == ["acme/llama-base"]
    server.hub.forget()
    assert models(publishing.opened(f"{INDEX}@{server.hub.commit(INDEX, 'main')}")) == ["acme/llama-base"]
    assert server.hub.requests == []


def test_signatures_are_fetched_at_once_on_request(server, index):
    publishing.push(index("one", "acme/llama-base"), INDEX)
    pulled = index("pulled")
    publishing.pull(INDEX, pulled, signatures=True)
    server.hub.forget()
    (entry,) = pulled.read().entries()
    assert pulled.signature(entry).model == "acme/llama-base"
    assert server.hub.requests == []


@pytest.mark.parametrize("name", ["index", "../index", "a/b/c", ""])
def test_a_name_that_cannot_be_one_of_the_hub_is_refused(server, index, name):
    with pytest.raises(OptionError, match="is not a dataset repository on the Hub;"):
        publishing.push(index("one"), name)


def test_who_may_not_write_is_told(server, index):
    server.refusal = 403
    with pytest.raises(LineageError, match=r"wren/index: the Hub refuses the change \(403\)"):
        publishing.push(index("one", "acme/llama-base"), INDEX)
