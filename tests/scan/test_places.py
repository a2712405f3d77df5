"""What lies on a disk is listed by the names that `check` takes, and what cannot be read is an entry that says why."""

import os
import shlex
import shutil

import pytest

from hf_lineage.errors import RepositoryError
from hf_lineage.scan.places import find_models, stores
from tests.adapters import pair
from tests.adapters import written as adapter
from tests.gguf_models import write
from tests.invoking import lineage
from tests.models import EXAMPLES, card, edit_json, shard
from tests.ollama_store import blob, layer, pulled, written

CHILD = EXAMPLES / "fern/llama-finetune-a"
SAID = {"general.base_model.count": 1, "general.base_model.0.repo_url": "https://huggingface.co/acme/llama-base"}
COMMIT = "0" * 39 + "1"


@pytest.fixture(scope="session")
def child(tmp_path_factory):
    return write(CHILD, tmp_path_factory.mktemp("gguf") / "child.gguf", said=SAID | {"general.name": "A Child"})


def listed(*places):
    """Name -> place, format and bases."""
    return {
        model.name: (model.where, model.form, *(claim.base for claim in model.claims)) for model in find_models(places)
    }


def cached(cache, repo, folder, commit=COMMIT, ref="main"):
    """A repository in a cache of the Hub, as its client lays it out."""
    place = cache / f"models--{repo.replace('/', '--')}"
    snapshot = place / "snapshots" / commit
    (place / "blobs").mkdir(parents=True, exist_ok=True)
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest = blob(place, file.read_bytes()).removeprefix("sha256:")
        (place / "blobs" / f"sha256-{digest}").rename(place / "blobs" / digest)
        link = snapshot / file.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(place / "blobs" / digest, link.parent))
    if ref:
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / ref).write_text(commit)
    return snapshot


def test_the_stores_of_all_programs_are_listed_in_one_list(disk, child, tmp_path):
    pulled(disk / ".ollama/models", "child:1b", child)
    studio = disk / ".lmstudio/models/fern/child-GGUF/child-F32.gguf"
    older = disk / ".cache/lm-studio/models/fern/old/old.gguf"
    llama = disk / ".cache/llama.cpp/fern_child.gguf"
    for file in (studio, older, llama):
        file.parent.mkdir(parents=True)
        shutil.copy(child, file)
    cached(disk / ".cache/huggingface/hub", "fern/llama-finetune-a", CHILD)
    assert listed() == {
        "fern/llama-finetune-a": ("Hub cache", "safetensors", "acme/llama-base"),
        "ollama://child:1b": ("Ollama", "GGUF", "acme/llama-base"),
        str(studio): ("LM Studio", "GGUF", "acme/llama-base"),
        str(older): ("LM Studio", "GGUF", "acme/llama-base"),
        str(llama): ("llama.cpp", "GGUF", "acme/llama-base"),
    }


def test_each_name_can_be_typed_behind_check(disk, child):
    pulled(disk / ".ollama/models", "child", child)
    place = disk / ".lmstudio/models/fern/a child"
    place.mkdir(parents=True)
    shutil.copy(child, place / "a child.gguf")
    for name in listed():
        assert lineage("check", *shlex.split(name), "--base", EXAMPLES / "acme/llama-base").code == 0


def test_variables_name_other_places(disk, child, tmp_path, monkeypatch):
    pulled(tmp_path / "ollama", "child", child)
    (tmp_path / "llama").mkdir()
    shutil.copy(child, tmp_path / "llama/x.gguf")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "llama"))
    assert stores() == [("Ollama", tmp_path / "ollama"), ("llama.cpp", tmp_path / "llama")]
    assert [*listed()] == ["ollama://child:latest", str(tmp_path / "llama/x.gguf")]


def test_a_place_is_known_by_what_is_in_it(disk, child, tmp_path):
    place = tmp_path / "disk"
    pulled(place / "store", "child", child)
    cached(place / "hub", "fern/child", CHILD)
    shutil.copytree(CHILD, place / "models/mine")
    expected = {
        "fern/child": (f"Hub cache in {place}/hub", "safetensors", "acme/llama-base"),
        str(place / "models/mine"): ("folder", "safetensors", "acme/llama-base"),
        "ollama://child:latest": (f"Ollama in {place}/store", "GGUF", "acme/llama-base"),
    }
    assert listed(place) == expected
    assert listed(*(place / name for name in ("store", "hub", "models"))) == expected
    assert len(list(find_models([place / "store", place]))) == 3


def test_a_store_from_which_check_takes_no_names_is_told_with_its_place(disk, child, tmp_path, monkeypatch):
    """A folder from elsewhere may hold another model under a name that the user's own store has."""
    pulled(disk / ".ollama/models", "child", child)
    pulled(tmp_path / "other", "child", write(CHILD, tmp_path / "other.gguf"))
    notes = []
    models = list(find_models([disk / ".ollama", tmp_path / "other"], notes.append))
    assert [(model.name, model.where) for model in models] == [
        ("ollama://child:latest", "Ollama"),
        ("ollama://child:latest", f"Ollama in {tmp_path}/other"),
    ]
    told = "set OLLAMA_MODELS to it to check the models in it by their names"
    assert notes == [f"`check` takes no names from {tmp_path}/other; {told}"]


def test_a_revision_is_named_where_it_is_not_that_of_main(disk):
    cache = disk / ".cache/huggingface/hub"
    cached(cache, "fern/a", CHILD, "1" * 40)
    cached(cache, "fern/a", CHILD, "2" * 40, ref="v2")
    cached(cache, "fern/a", CHILD, "3" * 40, ref="")
    assert [*listed()] == ["fern/a", "fern/a@v2", f"fern/a@{'3' * 40}"]


def test_what_a_check_left_in_the_cache_without_weights_is_no_model(disk, tmp_path):
    folder = tmp_path / "headers"
    folder.mkdir()
    for file in ("config.json", "README.md"):
        shutil.copy(CHILD / file, folder / file)
    cached(disk / ".cache/huggingface/hub", "fern/a", folder)
    assert listed() == {}


def test_files_of_one_folder_are_models_of_their_own_and_their_parts_are_not(disk, child, tmp_path):
    folder = tmp_path / "many"
    (folder / "Q8").mkdir(parents=True)
    names = ["a-Q4_0.gguf", "a-Q8_0.gguf", "mmproj-a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]
    for name in (*names, "Q8/c.gguf"):
        shutil.copy(child, folder / name)
    models = {model.name: len(model.files) for model in find_models([folder])}
    names = ["a-Q4_0.gguf", "a-Q8_0.gguf", "b-00001-of-00002.gguf", "Q8/c.gguf"]
    assert models == {str(folder / name): 2 if name.startswith("b") else 1 for name in names}
    cached(disk / ".cache/huggingface/hub", "fern/many", folder)
    assert [*listed()] == [f"fern/many --file {name}" for name in names]


def test_folders_of_every_form_are_listed_once(disk, tmp_path):
    place = tmp_path / "models"
    shard(shutil.copytree(CHILD, place / "sharded"))
    (place / "sharded/onnx").mkdir()
    (place / "sharded/onnx/model.onnx").touch()
    (place / "pickled").mkdir(parents=True)
    edit_json(place / "pickled/config.json", model_type="llama")
    (place / "pickled/pytorch_model.bin").write_bytes(b"x")
    (place / "lora").mkdir()
    adapter(place / "lora", pair("model.layers.0.self_attn.q_proj", 8, 8), base_model_name_or_path="acme/base")
    (place / "pipeline/unet").mkdir(parents=True)
    edit_json(place / "pipeline/model_index.json", unet=["diffusers", "UNet"])
    (place / "pipeline/unet/diffusion_pytorch_model.safetensors").write_bytes(b"12345")
    (place / "no model").mkdir()
    (place / "no model/data.bin").touch()
    forms = {name.rpartition("/")[2]: form for name, (_, form, *_) in listed(place).items()}
    assert forms == {"lora": "LoRA", "pickled": "pickle", "pipeline": "pipeline", "sharded": "safetensors"}
    assert sum(model.size for model in find_models([place]) if model.form == "pipeline") == 5


def test_a_file_says_what_it_is_called(disk, child):
    pulled(disk / ".ollama/models", "child", child)
    (model,) = find_models()
    assert (model.title, model.size) == ("A Child", child.stat().st_size)


def test_what_is_broken_in_a_store_is_an_entry_each_and_the_rest_goes_on(disk, child):
    store = disk / ".ollama/models"
    pulled(store, "good", child)
    gone = pulled(store, "gone", write(CHILD, disk / "other.gguf"))
    (store / "blobs" / f"sha256-{blob_of(gone)}").unlink()
    written(store, "broken", b"{")
    written(store, "huge", b" " * (2**24 + 1))
    written(
        store, "climbing", b'{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../x"}]}'
    )
    written(store, "empty", b"{}")
    loop = written(store, "loop", b"")
    loop.unlink()
    loop.symlink_to(loop)
    damaged = layer(store, "model", b"GGUF\x03\0\0\0" + b"\xff" * 100)
    written(store, "damaged", {"layers": [damaged]})
    (loop.parents[1] / "linked").symlink_to(loop.parents[1])
    (loop.parents[1] / ".hidden").mkdir()
    (loop.parents[1] / ".hidden/latest").write_text("{}")
    models = {model.name.removeprefix("ollama://").partition(":")[0]: model for model in find_models()}
    assert not models.pop("good").problem
    assert {name: model.problem.partition(": ")[2].partition(" (")[0] for name, model in models.items()} == {
        "broken": "its manifest is not one of Ollama",
        "climbing": "its manifest names the blob sha256:../x, which is not a SHA-256; do not trust it",
        "damaged": models["damaged"].problem.partition(": ")[2].partition(" (")[0],
        "empty": "its manifest names no file with a model; pull it again",
        "gone": f"sha256-{blob_of(gone)} is not among the blobs of the store; pull it again",
        "huge": "its manifest is larger than 16 MiB; do not trust it",
        "loop": models["loop"].problem.partition(": ")[2].partition(" (")[0],
    }
    assert "is not a file but a folder, a pipe, a broken link" in models["loop"].problem
    assert "do not trust it" in models["damaged"].problem


def blob_of(manifest):
    """The digest of the model that a manifest names."""
    return manifest.read_text().partition("image.model")[2].partition("sha256:")[2][:64]


def test_folders_of_a_store_hide_nothing_that_lies_beside_them(disk, child, tmp_path):
    """Whoever wrote the folder chose the names in it."""
    place = tmp_path / "models"
    for name in ("blobs", "manifests", "models--a--b/snapshots", "datasets--x--y", "inner/blobs", "inner/models--a"):
        (place / name).mkdir(parents=True)
    for name in ("one.gguf", "inner/two.gguf", "inner/further/three.gguf"):
        (place / name).parent.mkdir(exist_ok=True)
        shutil.copy(child, place / name)
    assert [*listed(place)] == [
        str(place / name) for name in ("one.gguf", "inner/two.gguf", "inner/further/three.gguf")
    ]


def test_a_circle_of_links_and_a_link_to_nothing_end_nowhere(disk, child, tmp_path):
    place = tmp_path / "models"
    (place / "a").mkdir(parents=True)
    shutil.copy(child, place / "a/child.gguf")
    (place / "a/again").symlink_to(place)
    (place / "a/gone.gguf").symlink_to(place / "nothing")
    (place / "a/self.gguf").symlink_to(place / "a/self.gguf")
    os.mkfifo(place / "a/pipe.gguf")
    problems = {model.name: model.problem for model in find_models([place])}
    assert problems == {
        str(place / "a/child.gguf"): "",
        **{
            str(place / "a" / name): f"{name} is a pipe or a link to nothing; remove it"
            for name in ("gone.gguf", "pipe.gguf", "self.gguf")
        },
    }


def test_a_link_out_of_the_folder_of_a_model_is_not_followed(disk, child, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models/child.gguf").symlink_to(child)
    (model,) = find_models([tmp_path / "models"])
    assert "is a link out of the model's folder and is not followed" in model.problem


def test_a_folder_that_cannot_be_listed_is_an_entry(disk, child, tmp_path, monkeypatch):
    """Root lists whatever the mode of a folder is, so the system is made to refuse it."""
    pulled(disk / ".ollama/models", "good", child)
    for place in (tmp_path / "models/closed", tmp_path / "models/open"):
        place.mkdir(parents=True)
    shutil.copy(child, tmp_path / "models/open/child.gguf")
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path).endswith(("closed", "good")):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    closed, opened = sorted(find_models([tmp_path / "models"]), key=lambda model: model.name)
    assert (closed.name, opened.problem) == (str(tmp_path / "models/closed"), "")
    assert closed.problem == "cannot be listed: Permission denied; check its permissions"
    (store,) = find_models()
    assert (store.where, store.problem) == ("Ollama", "cannot be listed: Permission denied; check its permissions")


def test_a_cache_that_is_damaged_in_part_is_told_and_the_rest_is_listed(disk, child):
    cache = disk / ".cache/huggingface/hub"
    cached(cache, "fern/good", CHILD)
    (cache / "models--fern--bad").mkdir()
    notes = []
    assert [model.name for model in find_models((), notes.append)] == ["fern/good"]
    assert len(notes) == 1
    assert "Snapshots dir doesn't exist" in notes[0]


def test_metadata_that_is_hostile_is_shown_as_text(disk, tmp_path):
    said = {"general.name": "\x1b[31mred\n::error::x", "general.base_model.0.repo_url": "\x1b[31m"}
    write(CHILD, tmp_path / "models/x.gguf", said=said)
    (model,) = find_models([tmp_path / "models"])
    assert model.title.isprintable()
    assert all(claim.base.isprintable() for claim in model.claims)


def test_a_card_that_cannot_be_read_is_a_problem_of_its_model_alone(disk, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(CHILD, tmp_path / "models" / name)
    (tmp_path / "models/a/README.md").write_text("---\nbase_model: [\n---\n")
    card(tmp_path / "models/b", "acme/base")
    first, second = find_models([tmp_path / "models"])
    assert "README.md, line" in first.problem
    assert [claim.base for claim in second.claims] == ["acme/base"]


@pytest.mark.parametrize("place", ["nowhere", "file"])
def test_a_place_that_is_no_folder_is_an_error(disk, tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(RepositoryError, match=f"{place} is not a folder, so nothing in it can be listed"):
        list(find_models([tmp_path / place]))
