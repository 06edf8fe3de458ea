"""What happened: the vocabulary of events (`eventlog.events`) and the bytes kept in order (`eventlog.storage`)."""
