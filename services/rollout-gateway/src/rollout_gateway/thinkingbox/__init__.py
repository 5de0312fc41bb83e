"""Conversations of imported ThinkingBox tasks, by the rules of their harness."""
