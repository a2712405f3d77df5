"""The Hub: what is asked of it and written to it, all through its own client; and what a repository is."""
