"""The command line: argv, environment and exit codes, a file for each group of commands."""
