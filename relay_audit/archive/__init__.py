"""A run as one file that outlives this program: written, read as a stranger's, verified, and taken away again."""
