"""LoRA adapters: their factors, their places in a base, and the exact test for the base they were trained on."""
