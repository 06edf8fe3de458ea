"""The built-in judges that need no model: exact, contains, regex, json-equal, numeric. Pure."""
