import pytest


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A home without any store; the variables of all programs lead nowhere else."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable in ("OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("hf_lineage.hub.ollama.USUAL", ("~/.ollama/models",))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / ".cache/huggingface/hub"))
    return home
