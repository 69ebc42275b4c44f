"""One file per verb: its flags, and how its result reads on a terminal."""
