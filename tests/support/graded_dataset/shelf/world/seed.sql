INSERT INTO signs VALUES (1, 'Silence, please.');
