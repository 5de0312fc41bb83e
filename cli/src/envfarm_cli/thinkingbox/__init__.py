"""Reads datasets in ThinkingBox's documented formats; nothing of a dataset is ever executed."""
