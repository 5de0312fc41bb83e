CREATE TABLE entries (entry_id integer PRIMARY KEY, amount numeric NOT NULL, note text);
