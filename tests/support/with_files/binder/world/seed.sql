INSERT INTO letters VALUES ('L-1', 'Ada', 'open'), ('L-2', 'Bo', 'open');
