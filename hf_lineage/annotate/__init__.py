"""Annotate: the result of a check, written to the card of the model and to the record beside it."""
