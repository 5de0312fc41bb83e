-- Kranich, planning software by subscription. Ids are two letters for the kind of record and a number.

CREATE TABLE accounts (
    account_id    text PRIMARY KEY CHECK (account_id ~ '^AC-[0-9]+$'),
    firm          text NOT NULL UNIQUE,
    country       text NOT NULL CHECK (country IN ('DE', 'AT', 'FR', 'NL', 'GB', 'US')),
    currency      text NOT NULL,
    tier          text NOT NULL CHECK (tier IN ('standard', 'nonprofit')),
    status        text NOT NULL CHECK (status IN ('active', 'suspended', 'closed')),
    tax_id        text,
    tax_rate      numeric(4, 1) NOT NULL CHECK (tax_rate BETWEEN 0 AND 25),
    terms_days    integer NOT NULL CHECK (terms_days BETWEEN 7 AND 60),
    billing_email text NOT NULL CHECK (billing_email = lower(billing_email)),
    po_number     text,
    note          text NOT NULL,
    signed_on     date NOT NULL,
    CHECK (currency = CASE country WHEN 'GB' THEN 'GBP' WHEN 'US' THEN 'USD' ELSE 'EUR' END)
);

CREATE TABLE members (
    member_id  text PRIMARY KEY CHECK (member_id ~ '^ME-[0-9]+$'),
    account_id text NOT NULL REFERENCES accounts,
    name       text NOT NULL,
    email      text NOT NULL UNIQUE CHECK (email = lower(email)),
    role       text NOT NULL CHECK (role IN ('owner', 'billing', 'admin', 'viewer')),
    active     boolean NOT NULL
);
CREATE INDEX members_by_account ON members (account_id);
CREATE UNIQUE INDEX one_owner_of_an_account ON members (account_id) WHERE role = 'owner';

CREATE TABLE plans (
    plan      text PRIMARY KEY,
    rank      integer NOT NULL UNIQUE CHECK (rank > 0),
    min_seats integer NOT NULL CHECK (min_seats > 0),
    max_seats integer NOT NULL CHECK (max_seats >= min_seats)
);

-- List prices of one seat for one month or one year, without tax.
CREATE TABLE plan_prices (
    plan       text NOT NULL REFERENCES plans,
    currency   text NOT NULL CHECK (currency IN ('EUR', 'GBP', 'USD')),
    cycle      text NOT NULL CHECK (cycle IN ('monthly', 'yearly')),
    seat_price numeric(10, 2) NOT NULL CHECK (seat_price > 0),
    PRIMARY KEY (plan, currency, cycle)
);

CREATE TABLE subscriptions (
    subscription_id text PRIMARY KEY CHECK (subscription_id ~ '^SU-[0-9]+$'),
    account_id      text NOT NULL REFERENCES accounts,
    plan            text NOT NULL REFERENCES plans,
    cycle           text NOT NULL CHECK (cycle IN ('monthly', 'yearly')),
    seats           integer NOT NULL CHECK (seats > 0),
    seat_price      numeric(10, 2) NOT NULL CHECK (seat_price > 0),
    started_on      date NOT NULL,
    period_start    date NOT NULL CHECK (period_start >= started_on),
    period_end      date NOT NULL CHECK (period_end > period_start),
    status          text NOT NULL CHECK (status IN ('trial', 'active', 'paused', 'ended')),
    renews          boolean NOT NULL,
    next_plan       text REFERENCES plans,
    next_seats      integer CHECK (next_seats > 0),
    resumes_on      date,
    ended_on        date,
    CHECK ((status = 'ended') = (ended_on IS NOT NULL)),
    CHECK (status <> 'ended' OR NOT renews),
    CHECK (resumes_on > period_end)
);
CREATE INDEX subscriptions_by_account ON subscriptions (account_id);

-- Who uses a seat.
CREATE TABLE licences (
    licence_id      text PRIMARY KEY CHECK (licence_id ~ '^LI-[0-9]+$'),
    subscription_id text NOT NULL REFERENCES subscriptions,
    holder          text NOT NULL CHECK (holder = lower(holder)),
    last_used_on    date,
    UNIQUE (subscription_id, holder)
);

-- Runs of automations by month, counted one by one.
CREATE TABLE usage_months (
    subscription_id text NOT NULL REFERENCES subscriptions,
    month           date NOT NULL CHECK (extract(day FROM month) = 1),
    runs            integer NOT NULL CHECK (runs >= 0),
    included        integer NOT NULL CHECK (included >= 0),
    PRIMARY KEY (subscription_id, month)
);

CREATE TABLE bills (
    bill_id         text PRIMARY KEY CHECK (bill_id ~ '^BI-[0-9]+$'),
    account_id      text NOT NULL REFERENCES accounts,
    subscription_id text NOT NULL REFERENCES subscriptions,
    kind            text NOT NULL CHECK (kind IN ('period', 'seats', 'plan', 'overage')),
    covers_from     date NOT NULL,
    covers_to       date NOT NULL CHECK (covers_to >= covers_from),
    currency        text NOT NULL CHECK (currency IN ('EUR', 'GBP', 'USD')),
    net             numeric(10, 2) NOT NULL CHECK (net > 0),
    tax_rate        numeric(4, 1) NOT NULL CHECK (tax_rate BETWEEN 0 AND 25),
    tax             numeric(10, 2) NOT NULL CHECK (tax = round(net * tax_rate / 100, 2)),
    gross           numeric(10, 2) NOT NULL CHECK (gross = net + tax),
    issued_on       date NOT NULL,
    due_on          date NOT NULL CHECK (due_on >= issued_on),
    status          text NOT NULL CHECK (status IN ('open', 'paid', 'disputed'))
);
CREATE INDEX bills_by_account ON bills (account_id);
CREATE INDEX bills_by_subscription ON bills (subscription_id);

CREATE TABLE bill_lines (
    bill_id    text NOT NULL REFERENCES bills,
    line       integer NOT NULL CHECK (line > 0),
    item       text NOT NULL CHECK (item <> ''),
    quantity   integer NOT NULL CHECK (quantity > 0),
    unit_price numeric(10, 2) NOT NULL CHECK (unit_price > 0),
    PRIMARY KEY (bill_id, line)
);

CREATE TABLE incoming_payments (
    payment_id  text PRIMARY KEY CHECK (payment_id ~ '^PY-[0-9]+$'),
    bill_id     text NOT NULL REFERENCES bills,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    method      text NOT NULL CHECK (method IN ('card', 'direct_debit', 'transfer')),
    status      text NOT NULL CHECK (status IN ('settled', 'failed', 'charged_back')),
    received_on date NOT NULL
);
CREATE INDEX incoming_payments_by_bill ON incoming_payments (bill_id);

CREATE TABLE sign_offs (
    sign_off_id text PRIMARY KEY CHECK (sign_off_id ~ '^SO-[0-9]+$'),
    matter      text NOT NULL CHECK (matter IN ('charge', 'correction', 'pause', 'hold', 'voucher')),
    subject     text NOT NULL,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    answer      text NOT NULL CHECK (answer IN ('approved', 'waiting')),
    asked_at    timestamptz NOT NULL
);

CREATE TABLE credit_notes (
    credit_note_id text PRIMARY KEY CHECK (credit_note_id ~ '^CN-[0-9]+$'),
    bill_id        text NOT NULL REFERENCES bills,
    amount         numeric(10, 2) NOT NULL CHECK (amount > 0),
    reason         text NOT NULL CHECK (reason IN ('double_charge', 'wrong_price', 'wrong_quantity',
                   'outage', 'tax', 'withdrawal', 'goodwill')),
    sign_off_id    text UNIQUE REFERENCES sign_offs,
    created_at     timestamptz NOT NULL
);

CREATE TABLE payouts (
    payout_id   text PRIMARY KEY CHECK (payout_id ~ '^PO-[0-9]+$'),
    payment_id  text NOT NULL REFERENCES incoming_payments,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    reason      text NOT NULL CHECK (reason IN ('double_charge', 'wrong_price', 'wrong_quantity',
                'outage', 'tax', 'withdrawal', 'goodwill')),
    sign_off_id text UNIQUE REFERENCES sign_offs,
    created_at  timestamptz NOT NULL
);

-- What the desk itself charged, credited and paid out, for the bookkeepers; written by the desk, not by itself.
CREATE TABLE ledger_entries (
    ledger_entry_id text PRIMARY KEY CHECK (ledger_entry_id ~ '^LE-[0-9]+$'),
    account_id      text NOT NULL REFERENCES accounts,
    kind            text NOT NULL CHECK (kind IN ('charge', 'credit', 'payout')),
    bill_id         text NOT NULL REFERENCES bills,
    amount          numeric(10, 2) NOT NULL CHECK (amount > 0),
    booked_at       timestamptz NOT NULL
);

-- Reminders of bills that are late. At level 3 a collection agency is next.
CREATE TABLE dunning_cases (
    bill_id      text PRIMARY KEY REFERENCES bills,
    level        integer NOT NULL CHECK (level BETWEEN 1 AND 3),
    next_step_on date NOT NULL,
    held_until   date
);

CREATE TABLE vouchers (
    code            text PRIMARY KEY CHECK (code = upper(code)),
    percent         integer NOT NULL CHECK (percent BETWEEN 1 AND 60),
    plan            text REFERENCES plans,
    valid_from      date NOT NULL,
    valid_until     date NOT NULL CHECK (valid_until >= valid_from),
    first_period    boolean NOT NULL,
    max_redemptions integer NOT NULL CHECK (max_redemptions > 0)
);

CREATE TABLE redemptions (
    subscription_id text NOT NULL REFERENCES subscriptions,
    code            text NOT NULL REFERENCES vouchers,
    sign_off_id     text UNIQUE REFERENCES sign_offs,
    redeemed_at     timestamptz NOT NULL,
    PRIMARY KEY (subscription_id, code)
);

CREATE TABLE outbox (
    mail_id   text PRIMARY KEY CHECK (mail_id ~ '^MA-[0-9]+$'),
    member_id text NOT NULL REFERENCES members,
    template  text NOT NULL CHECK (template IN
              ('seats_changed', 'plan_changed', 'renewal_off', 'renewal_on', 'withdrawn', 'paused',
               'licence_revoked', 'credit_note', 'payout', 'dunning_held', 'voucher_redeemed',
               'details_changed', 'owner_changed')),
    subject   text NOT NULL,
    sent_at   timestamptz NOT NULL
);

CREATE TABLE change_log (
    change_id text PRIMARY KEY CHECK (change_id ~ '^CL-[0-9]+$'),
    subject   text NOT NULL,
    action    text NOT NULL CHECK (action IN
              ('seats_changed', 'plan_changed', 'renewal_off', 'renewal_on', 'withdrawn', 'paused',
               'licence_revoked', 'credit_note', 'payout', 'dunning_held', 'voucher_redeemed',
               'details_changed', 'owner_changed', 'outage_confirmed')),
    detail    text NOT NULL CHECK (detail <> ''),
    at        timestamptz NOT NULL
);
CREATE INDEX change_log_by_subject ON change_log (subject);

CREATE TABLE referrals (
    referral_id text PRIMARY KEY CHECK (referral_id ~ '^RF-[0-9]+$'),
    member_id  text NOT NULL REFERENCES members,
    team       text NOT NULL CHECK (team IN
               ('trust', 'owner_consent', 'collections', 'retention', 'payments', 'sales', 'other')),
    subject    text NOT NULL,
    note       text NOT NULL CHECK (note <> ''),
    created_at timestamptz NOT NULL
);
