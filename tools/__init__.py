"""What keeps the repository in order; none of it is in the wheel."""
