"""Programs that run in the interpreter of a mounted server, so: the standard library alone, Python 3.9
or later. They are copied to where accounts of servers can read them; nothing here is imported by us."""
