"""A store as Ollama lays it out: manifests as it writes them, blobs called by the SHA-256 of what they hold."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

MEDIA = "application/vnd.ollama.image."
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
LISTED = "application/vnd.ollama.manifest.list.v2+json"
HOST = "registry.ollama.ai"


def blob(store: Path, content: bytes) -> str:
    """Put content among the blobs; its digest as manifests spell it."""
    digest = hashlib.sha256(content).hexdigest()
    (store / "blobs").mkdir(parents=True, exist_ok=True)
    (store / "blobs" / f"sha256-{digest}").write_bytes(content)
    return f"sha256:{digest}"


def layer(store: Path, kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": f"{MEDIA}{kind}", "digest": blob(store, content), "size": len(content)}


def manifest(store: Path, *layers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A manifest of these layers, with the layer of the configuration that every model has."""
    config = blob(store, b'{"model_format":"gguf","model_family":"llama"}')
    about = {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": config, "size": 46}
    return {"schemaVersion": 2, "mediaType": MANIFEST, "config": about, "layers": list(layers), **more}


def written(
    store: Path, name: str, content: Any, *, namespace: str = "library", host: str = HOST, root: str = "manifests"
) -> Path:
    """Write a manifest, or any other content, under a name such as llama3.2:1b."""
    model, _, tag = name.partition(":")
    file = store / root / host / namespace / model / (tag or "latest")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content, separators=(",", ":")).encode())
    return file


def pulled(store: Path, name: str, file: Path, *layers: dict[str, Any], licence: str = "", **where: str) -> Path:
    """Store a GGUF file under a name as `ollama pull` does; its manifest."""
    own = [layer(store, "model", file.read_bytes()), layer(store, "template", b"{{ .Prompt }}"), *layers]
    own += [layer(store, "license", licence.encode())] if licence else []
    own += [layer(store, "params", b'{"stop":["<|eot_id|>"]}')]
    return written(store, name, manifest(store, *own), **where)


def linked(store: Path, name: str, content: Any, host: str = "ollama.com") -> Path:
    """Store a manifest as a newer Ollama does: it is a blob, and under its name stands a link to it."""
    digest = blob(store, json.dumps(content, separators=(",", ":")).encode())
    file = written(store, name, b"", host=host, root="manifests-v2")
    file.unlink()
    file.symlink_to(os.path.relpath(store / "blobs" / digest.replace(":", "-"), file.parent))
    return file
