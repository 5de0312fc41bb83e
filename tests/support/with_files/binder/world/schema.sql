CREATE TABLE letters (letter_id text PRIMARY KEY, client text NOT NULL, status text NOT NULL);
