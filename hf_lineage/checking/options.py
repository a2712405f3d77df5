"""Options: what a check depends on besides the models, all of it in one record; a function takes the part it needs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from hf_lineage.architecture.registry import Choice, listing, similar
from hf_lineage.checking.option_types import settle
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence import Procedure
from hf_lineage.files import places
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Names, OptionalPath, Sources, Spec
from hf_lineage.signature.sources import trust

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Options(Sources, Procedure, Spec):
    """What a check depends on besides the models; out of range, or of another kind, raises OptionError, which names it.

    So does a cache in a git checkout.

    Text stands for a path, the name of a recipe for the recipe, and one name for several of them.

    >>> Options(alpha=0.0001)
    Traceback (most recent call last):
    hf_lineage.errors.OptionError: alpha 0.0001 cannot be reached with 999 permutations; use at least 9999
    >>> Options(local_hub="examples/hub", recipe="paper", paths="mlp").paths
    ('mlp',)
    """

    # Declared again: of the fields of a frozen base mypy knows only what may be written, and not what is held.
    paths: Names = Names(*Spec.paths)
    """Names of paths, or all of them: `all`."""
    nulls: Names = Names()
    """Models known to be independent of the base, or names of published nulls."""
    accept: Names = Names()
    """Kinds of RELATED that are accepted though they verify no claim: part, basis, weak."""
    signatures: Names = Names()
    """Repositories on the Hub to search for signatures of bases, besides their own."""
    trust: OptionalPath = OptionalPath()
    """A trust file instead of the usual one."""

    max_memory: str | None = None
    local_hub: OptionalPath = OptionalPath()
    _: KW_ONLY
    subfolder: str = ""
    """The folder of the repository in which the model is; bases are searched for the same folder."""

    file: str | None = None
    """The file from which a converted model (GGUF, ONNX, CTranslate2) is read, where its repository has several; bases
    are not concerned."""
    allow_pickle: bool = False
    """Whether the tensors of a pickle are read, of the model and of its bases; nothing in it is run."""
    as_class: str | None = None
    """The listed class whose layers a model has that names an unlisted one."""
    registry: OptionalPath = OptionalPath()
    """A folder of factorizations of the user's own, for classes that the registry does not list; by default the one
    that the trust file names."""

    @functools.cached_property
    def choice(self) -> Choice:
        """How a model is read whose class the registry does not list; OptionError for an invalid trust file."""
        named = None if self.registry else trust.load(self.trust).registry
        return Choice(self.as_class, Path(named) if named else self.registry)

    def allowed(self, repo: RepoRef) -> RepoRef:
        """Return a repository of which what the user allows may be read."""
        return replace(repo, allow_pickle=True) if self.allow_pickle else repo

    def __post_init__(self) -> None:
        settle(self)
        places.outside_checkouts(places.CACHE)
        Spec.__post_init__(self)
        Procedure.__post_init__(self)
        Sources.__post_init__(self)
        if self.budget == "quick" and (self.nulls or self.recipe.probes is None):
            raise OptionError("--null and --exact need all layers; leave --budget quick out")
        if self.published and self.recipe.probes is None:
            raise OptionError("no signature of --exact is published; leave --published or --exact out")
        if self.registry is not None and not self.registry.is_dir():
            raise OptionError(f"--registry {self.registry} is no folder; give the one that holds the factorizations")
        if self.as_class and not self.registry and not any(listing(self.as_class)):
            meant = similar(self.as_class)
            instead = f"did you mean {meant}?" if meant else "`hf-lineage registry` lists them"
            raise OptionError(f"--as {printable(self.as_class, 200)} is no class of the registry; {instead}")
        if 1 / (self.permutations + 1) > self.alpha:
            least = -int(-1 // self.alpha) - 1
            raise OptionError(
                f"alpha {self.alpha:g} cannot be reached with {self.permutations} permutations; use at least {least}"
            )


def takes_options(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function of the API that says where its options stand when one is named as an argument of its own."""

    @functools.wraps(function)
    def called(*arguments: Given.args, **named: Given.kwargs) -> Result:
        for name, value in named.items():
            if name in Options.__dataclass_fields__:
                example = f"{function.__name__}(..., options=Options({name}={printable(repr(value), 100)}))"
                raise OptionError(f"{name} is a field of hf_lineage.Options; write {example}")
        return function(*arguments, **named)

    return called
