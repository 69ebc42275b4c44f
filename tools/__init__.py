"""The command line. Each verb is a Python call here and a click command in `commands`."""
