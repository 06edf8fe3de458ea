"""What you type: one file a command; parse, call one function, print."""
