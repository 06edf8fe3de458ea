"""What happened: the vocabulary (`eventlog.events`), and bytes kept in order (`eventlog.storage`)."""
