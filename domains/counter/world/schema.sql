-- The counter of a repair workshop. Ids are a letter and digits; amounts are whole euros.

CREATE TABLE customers (
    customer_id text PRIMARY KEY CHECK (customer_id ~ '^C[0-9]{2}$'),
    name        text NOT NULL UNIQUE,
    phone       text NOT NULL UNIQUE CHECK (phone ~ '^0[0-9 ]+$')
);

CREATE TABLE parts (
    part_id text PRIMARY KEY CHECK (part_id ~ '^P[0-9]{2}$'),
    name    text NOT NULL UNIQUE,
    price   integer NOT NULL CHECK (price > 0),
    stock   integer NOT NULL CHECK (stock >= 0)
);

CREATE TABLE jobs (
    job_id      text PRIMARY KEY CHECK (job_id ~ '^[D-HJ-N][0-9]{2}$'),
    customer_id text NOT NULL REFERENCES customers,
    device      text NOT NULL,
    state       text NOT NULL CHECK (state IN
                ('quoted', 'open', 'started', 'ready', 'collected', 'cancelled')),
    price       integer NOT NULL CHECK (price > 0),
    quoted_on   date NOT NULL,
    finished_on date CHECK (finished_on >= quoted_on),
    CHECK ((state IN ('ready', 'collected')) = (finished_on IS NOT NULL))
);
CREATE INDEX jobs_by_customer ON jobs (customer_id);

-- A job is paid once, in full.
CREATE TABLE payments (
    job_id   text PRIMARY KEY REFERENCES jobs,
    amount   integer NOT NULL CHECK (amount > 0),
    taken_at timestamptz NOT NULL
);

CREATE TABLE releases (
    job_id      text PRIMARY KEY REFERENCES jobs,
    released_at timestamptz NOT NULL
);

CREATE TABLE approvals (
    approval_id text PRIMARY KEY CHECK (approval_id ~ '^A[0-9]{2}$'),
    job_id      text NOT NULL REFERENCES jobs,
    amount      integer NOT NULL CHECK (amount > 0),
    made_at     timestamptz NOT NULL
);

CREATE TABLE refunds (
    refund_id   text PRIMARY KEY CHECK (refund_id ~ '^R[0-9]{2}$'),
    job_id      text NOT NULL REFERENCES payments,
    amount      integer NOT NULL CHECK (amount > 0),
    approval_id text UNIQUE REFERENCES approvals,
    made_at     timestamptz NOT NULL
);
CREATE INDEX refunds_by_job ON refunds (job_id);

CREATE TABLE refusals (
    job_id  text NOT NULL REFERENCES jobs,
    reason  text NOT NULL CHECK (reason IN ('late', 'owner', 'state')),
    made_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, reason)
);

CREATE TABLE fittings (
    job_id    text NOT NULL REFERENCES jobs,
    part_id   text NOT NULL REFERENCES parts,
    fitted_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, part_id)
);

CREATE TABLE part_orders (
    job_id     text NOT NULL REFERENCES jobs,
    part_id    text NOT NULL REFERENCES parts,
    ordered_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, part_id)
);

-- What happened to a job, in order; every tool that writes also writes here.
CREATE TABLE events (
    job_id text NOT NULL REFERENCES jobs,
    seq    integer NOT NULL CHECK (seq > 0),
    kind   text NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (job_id, seq)
);
