"""`python -m chatcli`; knows only where the command line begins."""

from chatcli.cli.start import main

if __name__ == "__main__":
    main()
