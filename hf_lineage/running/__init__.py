"""Running models, in a process of their own: this needs torch and transformers, which are no requirements."""
