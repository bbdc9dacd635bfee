"""From judgements to pages: texts out of codes and parameters, rendered in memory, scanned for leaks, then written."""
