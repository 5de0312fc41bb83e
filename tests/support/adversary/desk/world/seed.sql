INSERT INTO clients VALUES
    ('K-1', 'Ada Lind', 'ada@example.com', NULL),
    ('K-2', 'Bo Falk', 'bo@example.com', ''),
    ('K-3', 'Cleo Ritz', 'cleo@example.com', '555');

INSERT INTO claims (claim_id, client_id, subject, status, amount, ratio, opened_at, tags, meta) VALUES
    (1, 'K-1', 'broken window', 'open', 120.0000, 0.1, '2026-02-01T10:00:00Z', '{glass}', '{"parts": ["a", "b"]}'),
    (2, 'K-1', 'flooded cellar', 'open', 900.0000, 0.2, '2026-02-02T10:00:00Z', '{water}', '{}'),
    (3, 'K-2', 'broken window', 'closed', 80.5000, 0.3, '2026-02-03T10:00:00Z', '{glass}', '{}'),
    (4, 'K-3', 'hail', 'open', 33.3300, 0.4, '2026-02-04T10:00:00Z', '{}', '{}');
SELECT setval('claims_claim_id_seq', 4);

INSERT INTO notes (note_id, claim_id, author, body) VALUES
    (1, 1, 'agent', 'called back'),
    (2, 3, 'agent', 'paid');
SELECT setval('notes_note_id_seq', 2);

INSERT INTO links VALUES (2, 1);

INSERT INTO visits VALUES
    ('V-1', 'K-1', '2026-02-10T08:00:00Z', '{"page": 1, "flags": ["x"]}'),
    ('V-2', 'K-2', '2026-02-11T08:00:00Z', 'not json');

INSERT INTO audit (audit_id, what, who) VALUES (1, 'read', 'system');
SELECT setval('audit_audit_id_seq', 1);

INSERT INTO scratch VALUES ('pad', 'empty');
