"""What is fed with anything at all: each module here is a strategy and a check, see README.md."""
