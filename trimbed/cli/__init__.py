"""The command line: a thin skin, one module a command. Heavy packages are imported inside the commands."""
