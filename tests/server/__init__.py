"""A small Hub: folders served over HTTP to the real huggingface_hub client, with a CDN beside it and faults to order.

Routes are functions in a table: a module that adds some imports `route`, and `serving` answers them.
"""

from tests.server.hub import Answer, Hub, Request, route
from tests.server.server import serving

__all__ = ["Answer", "Hub", "Request", "route", "serving"]
