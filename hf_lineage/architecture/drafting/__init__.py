"""Drafting: a first registry file for a class that the registry does not list yet."""
