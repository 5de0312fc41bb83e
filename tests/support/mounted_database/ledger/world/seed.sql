INSERT INTO entries VALUES (1, 10.50, 'opening');
