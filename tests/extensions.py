"""GitHub as far as `hf extensions install` asks it, and `uv` as far as it is called: both serve this repository.

Run as a program this is `hf` with such a GitHub, or after the word `uv` what makes environments that see the packages
of this one.
"""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMIT = "a" * 40
PACKED = ("hf_lineage", "registry", "pyproject.toml", "README.md", "LICENSE")


def github():
    """A client for which this folder is what GitHub has."""
    from huggingface_hub.utils import httpx

    def answer(request):
        if request.url.path.endswith("/info/refs"):
            return httpx.Response(200, text=f"001e# service\n{COMMIT} HEAD\0symref\n")
        owner, name, *rest = request.url.path.strip("/").split("/")
        if (owner, name) != ("acme", "hf-lineage"):
            return httpx.Response(404)
        file = ROOT.joinpath(*rest[1:])
        if rest and not file.is_file():
            return httpx.Response(404)
        return httpx.Response(200, content=file.read_bytes() if rest else b"")

    return httpx.Client(transport=httpx.MockTransport(answer))


def archive(file):
    """Write the zip file that GitHub makes of a branch."""
    with zipfile.ZipFile(file, "w") as packed:
        for name in PACKED:
            paths = [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*")
            for path in paths:
                if path.is_file() and "__pycache__" not in path.parts:
                    packed.write(path, Path("hf-lineage-HEAD", path.relative_to(ROOT)))


def uv(command, *arguments):
    """Make an environment, or install the one package that may be asked for into one."""
    folder = Path(arguments[0] if command == "venv" else arguments[arguments.index("--python") + 1])
    if command == "venv":
        venv.EnvBuilder(symlinks=True).create(folder)
        inside = sysconfig.get_path("purelib", vars={"base": str(folder)})
        Path(inside, "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
        return
    assert arguments[-1] == "https://github.com/acme/hf-lineage/archive/HEAD.zip", arguments
    file = folder.parents[2] / "hf_lineage-HEAD.zip"
    archive(file)
    here = ("--no-deps", "--no-index", "--no-build-isolation", "--force-reinstall", "--quiet")
    subprocess.run([sys.executable, "-m", "pip", "--python", folder, "install", *here, file], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "uv":
        uv(*[argument for argument in sys.argv[2:] if argument != "pip"])
    else:
        from huggingface_hub import set_client_factory
        from huggingface_hub.cli.hf import main

        set_client_factory(github)
        main()
