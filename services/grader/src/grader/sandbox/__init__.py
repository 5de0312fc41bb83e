"""Runs the code of `python` checks where it can harm nothing."""
