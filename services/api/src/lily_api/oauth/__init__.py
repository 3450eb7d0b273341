"""OAuth 2 client credentials: clients, tokens, and the documents by which others find and check them."""
