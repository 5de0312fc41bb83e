INSERT INTO readers VALUES ('R-1', 'Ada'), ('R-2', 'Bob'), ('r-3', 'Cyd');
INSERT INTO books (book_id, title, price) VALUES
    ('B-1', 'Emma', 12.50),
    ('B-2', 'Dune', 9.99),
    ('B-3', 'Äpfel', 0.1234567891);
INSERT INTO loans (book_id, reader_id, lent_at) VALUES ('B-2', 'R-2', '2026-02-01T10:00:00Z');
