"""A small Hub: folders served over HTTP to the real huggingface_hub client, a CDN beside it, and faults to order."""

from tests.server.hub import Answer, Hub, Request, route
from tests.server.server import serving

__all__ = ["Answer", "Hub", "Request", "route", "serving"]
