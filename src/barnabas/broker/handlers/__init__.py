"""One module per API key; each says what it serves and to whom."""
