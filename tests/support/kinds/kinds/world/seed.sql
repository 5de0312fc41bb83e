INSERT INTO things (small, big, exact, money2, single, double, words, short, fixed, raw, flag, day,
    clock, zoned, local_at, at, span, code, doc, numbers, names, host, net, mac, window_, period,
    feeling, points, twin)
SELECT n, n::bigint * 1000000007, n / 7.0, n + 0.50, n / 3.0, 0.1 * n, 'word ' || n, 'short ' || n, 'f' || n,
    decode(md5(n::text), 'hex'), n % 2 = 0, date '2026-01-01' + n, time '10:00' + n * interval '1 min',
    timetz '10:00+02' + n * interval '1 min', timestamp '2026-01-01' + n * interval '1 h',
    timestamptz '2026-01-01Z' + n * interval '1 h', n * interval '1 day 2 hours',
    md5(n::text)::uuid, jsonb_build_object('n', n, 'x', n / 4.0), ARRAY[n, n + 1], ARRAY['a', 'b' || n],
    '10.0.0.1'::inet + n, '10.1.0.0/16', '08:00:2b:01:02:03', int4range(n, n + 5),
    tstzrange('2026-01-01Z', timestamptz '2026-01-02Z' + n * interval '1 day'),
    (ARRAY['calm', 'glad', 'cross']::mood[])[n % 3 + 1], n, ROW(n, 'p' || n)::pair
FROM generate_series(1, 30) n;
INSERT INTO parents SELECT n, 'parent ' || n FROM generate_series(1, 12) n;
INSERT INTO children SELECT p, n, 'note ' || p || n FROM generate_series(1, 12) p, generate_series(1, 3) n;
INSERT INTO seats SELECT n, n, n FROM generate_series(1, 12) n;
INSERT INTO stock SELECT 'sku-' || n, 10 * n FROM generate_series(1, 12) n;
INSERT INTO serials (word) SELECT 'w' || n FROM generate_series(1, 12) n;
INSERT INTO readings SELECT n % 20, n, n / 2.0 FROM generate_series(1, 60) n;
INSERT INTO accounts (id, balance) SELECT n, 100 * n FROM generate_series(1, 12) n;
