"""Identifiers of licences: what the Hub calls a licence of the SPDX License List, as that list spells it.

The Hub writes them in lower case. What it knows besides (openrail, gemma, llama3, other) is on no list.
"""

from __future__ import annotations

import re

from hf_lineage.claims.licence import Licence

_NAMES = """
AFL-3.0 AGPL-3.0-only Apache-2.0 Artistic-2.0 BSD-2-Clause BSD-3-Clause BSD-3-Clause-Clear BSL-1.0 C-UDA-1.0 CC-BY-2.0
CC-BY-2.5 CC-BY-3.0 CC-BY-4.0 CC-BY-NC-2.0 CC-BY-NC-3.0 CC-BY-NC-4.0 CC-BY-NC-ND-3.0 CC-BY-NC-ND-4.0 CC-BY-NC-SA-2.0
CC-BY-NC-SA-3.0 CC-BY-NC-SA-4.0 CC-BY-ND-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC0-1.0 CDLA-Permissive-1.0 CDLA-Permissive-2.0
CDLA-Sharing-1.0 ECL-2.0 EPL-1.0 EPL-2.0 EUPL-1.1 EUPL-1.2 etalab-2.0 ISC LGPL-2.1-only LGPL-3.0-only LPPL-1.3c MIT
MPL-2.0 MS-PL NCSA ODC-By-1.0 ODbL-1.0 OFL-1.1 OSL-3.0 PDDL-1.0 PostgreSQL Unlicense WTFPL Zlib
"""
LISTED = tuple(_NAMES.split())
SPELLED = {name.lower(): name for name in LISTED} | {"c-uda": "C-UDA-1.0", "odbl": "ODbL-1.0", "pddl": "PDDL-1.0"}
"""By the Hub's identifier. GNU's without `only` or `or later` leave open which is meant, so they are on no list."""


def expression(licence: Licence) -> str:
    """Return the SPDX expression of a licence: its identifier, or a reference of our own to what is on no list."""
    if listed := SPELLED.get(licence.identifier.lower()):
        return listed
    named = licence.name if licence.identifier.lower() in ("", "other") else licence.identifier
    return "LicenseRef-" + (re.sub(r"[^A-Za-z0-9.]+", "-", named or licence.identifier).strip("-.") or "other")
