"""What the last committed run says of builds, and how it tells two indexes apart."""

import json

from benchmarks import building


def test_every_build_of_the_committed_run_gave_the_same_index():
    rows = {row["what"]: row for row in json.loads(building.FILE.read_text(encoding="utf-8"))["rows"]}
    off = {what: row["measured"] for what, row in rows.items() if what.endswith("files that differ")}
    assert off == {
        "200 models, local: files that differ": 0,
        "200 models, ray: files that differ": 0,
        "200 models, after a kill: files that differ": 0,
    }


def test_a_byte_more_or_a_file_less_is_seen(tmp_path):
    for name in ("one", "other"):
        for file in ("keys/a.safetensors", "signatures/00/b.safetensors"):
            (tmp_path / name / file).parent.mkdir(parents=True)
            (tmp_path / name / file).write_bytes(b"content")
    assert building._unlike(tmp_path / "one", tmp_path / "other") == 0
    (tmp_path / "other" / "keys/a.safetensors").write_bytes(b"Content")
    assert building._unlike(tmp_path / "one", tmp_path / "other") == 2
    (tmp_path / "one" / "signatures/00/b.safetensors").unlink()
    assert building._unlike(tmp_path / "one", tmp_path / "other") == 3
