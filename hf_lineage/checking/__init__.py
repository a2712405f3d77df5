"""Checking: both models are opened, and each claim is judged."""
