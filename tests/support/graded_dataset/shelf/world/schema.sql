CREATE TABLE signs (sign_id integer PRIMARY KEY, words text);
