"""Pickles: files of `torch.save`, read without running anything that they name."""
