"""`python -m chatcli`."""

from chatcli.cli.process import main

if __name__ == "__main__":
    main()
