"""Claims: what a repository says of its ancestry, and the files that say it."""
