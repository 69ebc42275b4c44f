"""`python -m lemurc` is `lemurc`."""

from lemurc.tools.cli import main

if __name__ == "__main__":
    main()
