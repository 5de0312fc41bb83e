"""All tools of this world are its servers'."""
