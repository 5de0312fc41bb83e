INSERT INTO members VALUES
    ('M-1', 'Ada Berg', 'ada.berg@example.org'),
    ('M-2', 'Bruno Keller', 'bruno.keller@example.org'),
    ('M-3', 'Chiara Rossi', 'chiara.rossi@example.org');

INSERT INTO items VALUES
    ('I-1', 'hammer drill'),
    ('I-2', 'ladder, 4 m'),
    ('I-3', 'tile cutter'),
    ('I-4', 'hedge trimmer');

INSERT INTO loans VALUES
    ('L-11', 'M-1', 'I-1', '2026-02-20', '2026-03-06', 0),
    ('L-12', 'M-1', 'I-2', '2026-02-14', '2026-02-28', 0),
    ('L-13', 'M-2', 'I-3', '2026-02-18', '2026-03-11', 1),
    ('L-14', 'M-3', 'I-4', '2026-02-24', '2026-03-10', 0);

INSERT INTO notes VALUES
    (1, 'L-13', 'extended', 'One more week for the bathroom.', '2026-02-27T10:12:00Z');
