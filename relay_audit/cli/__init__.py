"""The command line: parse, call, print. The only importer of typer and rich."""

import gc

# A start makes some hundred thousand objects that live as long as the command: looked through at every 700th, as the
# interpreter does by itself, they cost a tenth of the start. This package is loaded first.
gc.set_threshold(50_000, 20, 20)
