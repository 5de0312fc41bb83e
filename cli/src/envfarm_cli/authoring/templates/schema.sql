-- Every table needs a primary key. Constraints keep out what the database must never hold; what the
-- policy asks of the agent is not enforced here, or there is nothing to get wrong.

CREATE TABLE members (
    member_id text PRIMARY KEY CHECK (member_id ~ '^M-[0-9]+$'),
    name      text NOT NULL,
    email     text NOT NULL UNIQUE CHECK (email = lower(email))
);

CREATE TABLE items (
    item_id text PRIMARY KEY CHECK (item_id ~ '^I-[0-9]+$'),
    name    text NOT NULL UNIQUE
);

CREATE TABLE loans (
    loan_id    text PRIMARY KEY CHECK (loan_id ~ '^L-[0-9]+$'),
    member_id  text NOT NULL REFERENCES members,
    item_id    text NOT NULL REFERENCES items,
    lent_on    date NOT NULL,
    due_on     date NOT NULL CHECK (due_on > lent_on),
    extensions integer NOT NULL CHECK (extensions >= 0)
);

-- The side table that is easily forgotten.
CREATE TABLE notes (
    note_id    integer PRIMARY KEY,
    loan_id    text NOT NULL REFERENCES loans,
    kind       text NOT NULL CHECK (kind IN ('extended', 'refused', 'other')),
    body       text NOT NULL CHECK (body <> ''),
    written_at timestamptz NOT NULL
);
