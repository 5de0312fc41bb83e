"""The way in which a tool says no."""


class Refused(Exception):
    """A business rule says no. Its sentence is what the model reads; the transaction is undone."""
