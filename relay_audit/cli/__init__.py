"""The command line: parse, call, print. The only importer of typer and rich."""
