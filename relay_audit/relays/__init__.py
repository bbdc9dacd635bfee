"""One module per relay software: how it shows itself, and how its own log, balance and prices are read. Pure parsing;
what is fetched, and when, is the runner's business."""
