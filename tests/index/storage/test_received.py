"""What somebody else published as an index is untrusted input: one clear line, before anything large is read."""

import io
from dataclasses import replace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from hf_lineage.errors import LineageError, RepositoryError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.hub import listing
from hf_lineage.index.publishing import publishing
from hf_lineage.index.search.identify import identify
from hf_lineage.index.storage import received, shards
from hf_lineage.index.storage.catalogue import Catalogue, records_of
from hf_lineage.index.storage.shards import Entry
from tests.index.foreign import aborting, three
from tests.server import serving
from tests.server.client import connect

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")
KEY = np.zeros((1, 256), np.uint8)


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Publishes some files as an index and pulls it."""
    with serving() as hub:
        connect(hub, tmp_path / "cache", monkeypatch)

        def pulled(**files):
            for name, content in files.items():
                (tmp_path / "repo" / "keys").mkdir(parents=True, exist_ok=True)
                (tmp_path / "repo" / "keys" / f"{name}.parquet").write_bytes(content)
            hub.publish("eve/index", tmp_path / "repo")
            listing.tree.cache_clear()
            into = Catalogue(tmp_path / "index")
            try:
                publishing.pull("eve/index", into)
            finally:
                pulled.requests = hub.requests
            return into.read().entries()

        yield pulled


def refused(serve, content):
    with pytest.raises(LineageError) as raised:
        serve(bad=content)
    assert len(str(raised.value).splitlines()) == 1
    assert str(raised.value).startswith("eve/index: keys/bad.parquet is not a file of an index: "), raised.value
    assert str(raised.value).endswith("name a revision at which it is complete")
    return str(raised.value)


def altered(**changes):
    """A shard with other columns, or written in another way."""
    how = {"compression": "none", "use_dictionary": shards.REPEATED, "row_group_size": shards.ROWS} | {
        key: changes.pop(key) for key in ("compression", "use_dictionary", "row_group_size") if key in changes
    }
    rows = pyarrow.parquet.read_table(io.BytesIO(shards.encoded([ENTRY] * 3, KEY.repeat(3, 0))))
    for name, column in changes.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    stream = io.BytesIO()
    pyarrow.parquet.write_table(rows.replace_schema_metadata(shards.STAMP), stream, **how)
    return stream.getvalue()


def test_an_honest_one_is_read_and_says_where_signatures_are(serve):
    (entry,) = serve(good=shards.encoded([ENTRY], KEY))
    assert entry == ENTRY
    assert entry.source.startswith("eve/index@")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": "../../etc/passwd"}, "'../../etc/passwd' is not a model"),
        ({"model": "org/\x1b[31m"}, "is not a model"),
        ({"model": "o" * 500}, "a model is longer than 400 bytes"),
        ({"commit": ""}, "'' is not a commit"),
        ({"commit": "C" * 40}, "is not a commit"),
        ({"path": "nose"}, "'nose' is not a path"),
        ({"recipe": "a/b"}, "'a/b' is not a recipe"),
        ({"source": "mallory/index@" + "0" * 40}, "is not a source"),
        ({"width": -1}, "a width lies outside 1 to 1048576"),
        ({"layers": 2**30}, "a layers lies outside 1 to 100000"),
    ],
)
def test_rows_that_cannot_be_of_a_model_are_refused(serve, changes, problem):
    assert problem in refused(serve, shards.encoded([ENTRY, replace(ENTRY, **changes)], KEY.repeat(2, 0)))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", ""),
        (b"PAR1" + bytes(100) + b"PAR1", ""),
        (altered(compression="zstd"), "it is compressed"),
        (altered(use_dictionary=True).replace(b"hf_lineage_index", b"hf_lineage_other"), "it has the columns model"),
        (altered(row_group_size=1), "its groups do not have 65536 rows each"),
        (altered(key=pyarrow.array(["k"] * 3)), "its column key is of the type string"),
        (altered(width=pyarrow.array([1.5] * 3)), "its column width is of the type double"),
        (altered(model=pyarrow.array([["org/model"]] * 3)), "it has the columns"),
        (altered(model=pyarrow.array(["org/model", None, "org/model"])), ""),
    ],
)
def test_files_that_are_none_of_an_index_are_refused(serve, content, problem):
    assert problem in refused(serve, content)


def test_keys_that_grow_when_they_are_read_are_refused(serve):
    """A thousand times the same key takes a few bytes in a dictionary, and 256 KB in memory."""
    many = [replace(ENTRY, model=f"o/{number}") for number in range(5000)]
    rows = pyarrow.parquet.read_table(io.BytesIO(shards.encoded(many, KEY.repeat(5000, 0))))
    stream = io.BytesIO()
    pyarrow.parquet.write_table(rows.replace_schema_metadata(shards.STAMP), stream, compression="none")
    assert "rows, more than it can hold" in refused(serve, stream.getvalue())


def test_a_long_text_is_not_repeated_before_it_is_refused(serve):
    rows = shards.encoded([replace(ENTRY, recipe="r" * 2**16)] * 500, KEY.repeat(500, 0))
    assert "a recipe is longer than 400 bytes" in refused(serve, rows)


def test_a_shard_that_cannot_be_read_is_told_and_the_rest_is_pulled(serve, tmp_path):
    serve(good=three(), bad=aborting())
    done = publishing.pull("eve/index", Catalogue(tmp_path / "other"))
    assert (done.added, done.of) == (3, 3)
    (problem,) = done.unread
    assert problem == (
        "eve/index: keys/bad.parquet is not a file of an index: the process that read it ended (SIGABRT); name a "
        "revision at which it is complete"
    )
    for _ in range(2):  # pulled, and then as it is kept
        kept = publishing.opened("eve/index")
        assert len(kept.read()) == 3
        assert kept.passed.notes == [f"1 files of the index could not be read and were left out; the first: {problem}"]


def test_an_index_of_which_nothing_can_be_read_is_one_line(serve):
    assert "the process that read it ended (SIGABRT)" in refused(serve, aborting())


def test_too_many_rows_are_refused_and_nothing_is_written(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(received, "MOST_ROWS", 2)
    with pytest.raises(RepositoryError, match="eve/index has more than 2 rows; it is not an index"):
        serve(good=three())
    assert not list((tmp_path / "index" / "keys").iterdir())


def test_too_many_files_are_refused_before_any_is_fetched(serve, monkeypatch):
    monkeypatch.setattr(received, "MOST_SHARDS", 1)
    with pytest.raises(RepositoryError, match=r"eve/index has 2 files of keys of .* bytes, and hf-lineage reads"):
        serve(one=shards.encoded([ENTRY], KEY), two=shards.encoded([ENTRY], KEY))
    assert not [one for one in serve.requests if "resolve" in one]


def test_a_repository_that_holds_no_index_is_one_line(serve):
    with pytest.raises(RepositoryError, match=r"eve/index holds no index: there are no rows in keys/\*\.parquet"):
        serve(empty=shards.encoded([], KEY[:0]))


def test_a_signature_that_is_too_large_is_not_fetched(serve, tmp_path, monkeypatch):
    from hf_lineage.index.storage import catalogue

    (entry,) = serve(good=shards.encoded([ENTRY], KEY))
    file = tmp_path / "repo" / catalogue.signature_file(entry)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * 100)
    monkeypatch.setattr(catalogue, "LARGEST_SIGNATURE", 99)
    with pytest.raises(RepositoryError, match="has 100 bytes, and at most 99 are read"):
        Catalogue(tmp_path / "index").signature(entry)
    file.unlink()
    with pytest.raises(RepositoryError, match=r"eve/index has no signatures/.*\.safetensors at commit"):
        Catalogue(tmp_path / "index").signature(entry)


def test_a_signature_of_another_model_is_refused(serve, tmp_path, signatures):
    from hf_lineage.index.storage.catalogue import signature_file
    from hf_lineage.signature.sources.store import save_signature

    (entry,) = serve(good=shards.encoded([ENTRY], KEY))
    file = tmp_path / "repo" / signature_file(entry)
    file.parent.mkdir(parents=True)
    save_signature(signatures["acme/llama-base"], file)
    with pytest.raises(LineageError, match="is not the signature of org/model"):
        Catalogue(tmp_path / "index").signature(entry)


def test_a_pulled_row_without_its_signature_is_passed_over_until_the_model_is_added(serve, tmp_path, signatures):
    signature, catalogue = replace(signatures["acme/llama-base"], commit="c" * 40), Catalogue(tmp_path / "index")
    (record,) = records_of(signature)
    serve(good=shards.encoded([record.entry], record.key[None]))

    def found():
        return identify(signatures["fern/llama-finetune-a"], "mlp", catalogue, Criteria(permutations=199))

    assert (found().related, found().others) == ((), ())
    assert "1 models of the index could not be read and were left out;" in catalogue.passed.notes[0]
    assert catalogue.own_commits({"mlp": record.entry.recipe}) == {}
    catalogue.add(signature)
    assert [one.entry.model for one in found().related] == ["acme/llama-base"]
