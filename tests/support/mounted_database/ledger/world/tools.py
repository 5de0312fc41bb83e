"""All tools come from the server."""
