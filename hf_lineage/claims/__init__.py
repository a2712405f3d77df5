"""Claims: a repository's statements about its ancestry, and the files that make them."""
