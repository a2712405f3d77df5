"""Watch: what changes on the Hub, checked and written down, model by model."""
