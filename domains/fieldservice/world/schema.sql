-- Seerhein Heating Service. Ids are short text with a letter for the kind of record.

CREATE TABLE customers (
    customer_id text PRIMARY KEY CHECK (customer_id ~ '^C-[0-9]+$'),
    name        text NOT NULL UNIQUE,
    kind        text NOT NULL CHECK (kind IN ('household', 'business', 'landlord')),
    currency    text NOT NULL CHECK (currency IN ('EUR', 'CHF')),
    credit_hold boolean NOT NULL,
    since       date NOT NULL
);

CREATE TABLE contacts (
    contact_id  text PRIMARY KEY CHECK (contact_id ~ '^K-[0-9]+$'),
    customer_id text NOT NULL REFERENCES customers,
    name        text NOT NULL,
    email       text NOT NULL UNIQUE CHECK (email = lower(email)),
    phone       text NOT NULL,
    role        text NOT NULL CHECK (role IN ('owner', 'manager', 'caretaker', 'tenant')),
    may_order   boolean NOT NULL,
    CHECK (role <> 'tenant' OR NOT may_order)
);
CREATE INDEX contacts_by_customer ON contacts (customer_id);

CREATE TABLE sites (
    site_id     text PRIMARY KEY CHECK (site_id ~ '^S-[0-9]+$'),
    customer_id text NOT NULL REFERENCES customers,
    street      text NOT NULL CHECK (street <> ''),
    postcode    text NOT NULL CHECK (postcode <> ''),
    city        text NOT NULL CHECK (city <> ''),
    country     text NOT NULL CHECK (country IN ('DE', 'CH', 'AT')),
    region      text NOT NULL CHECK (region IN ('bodensee', 'thurgau', 'vorarlberg')),
    access_note text NOT NULL
);
CREATE INDEX sites_by_customer ON sites (customer_id);

CREATE TABLE contracts (
    contract_id     text PRIMARY KEY CHECK (contract_id ~ '^M-[0-9]+$'),
    customer_id     text NOT NULL REFERENCES customers,
    plan            text NOT NULL CHECK (plan IN ('basic', 'plus', 'premium')),
    yearly_fee      numeric(10, 2) NOT NULL CHECK (yearly_fee > 0),
    visits_per_year integer NOT NULL CHECK (visits_per_year BETWEEN 1 AND 4),
    response_hours  integer NOT NULL CHECK (response_hours > 0),
    starts_on       date NOT NULL,
    ends_on         date,
    CHECK (ends_on >= starts_on)
);

CREATE TABLE units (
    unit_id        text PRIMARY KEY CHECK (unit_id ~ '^U-[0-9]+$'),
    site_id        text NOT NULL REFERENCES sites,
    contract_id    text REFERENCES contracts,
    kind           text NOT NULL CHECK (kind IN ('gas_boiler', 'heat_pump', 'oil_boiler')),
    model          text NOT NULL,
    serial         text NOT NULL UNIQUE,
    installed_on   date NOT NULL,
    warranty_until date NOT NULL,
    status         text NOT NULL CHECK (status IN ('in_service', 'isolated', 'retired')),
    CHECK (warranty_until > installed_on)
);
CREATE INDEX units_by_site ON units (site_id);

CREATE TABLE technicians (
    technician_id text PRIMARY KEY CHECK (technician_id ~ '^E-[0-9]+$'),
    name          text NOT NULL UNIQUE,
    region        text NOT NULL CHECK (region IN ('bodensee', 'thurgau', 'vorarlberg')),
    gas           boolean NOT NULL,
    refrigerant   boolean NOT NULL
);

CREATE TABLE jobs (
    job_id      text PRIMARY KEY CHECK (job_id ~ '^J-[0-9]+$'),
    unit_id     text NOT NULL REFERENCES units,
    contact_id  text NOT NULL REFERENCES contacts,
    kind        text NOT NULL
                CHECK (kind IN ('warranty', 'contract', 'chargeable', 'inspection', 'emergency')),
    priority    text NOT NULL CHECK (priority IN ('normal', 'urgent')),
    status      text NOT NULL CHECK (status IN ('open', 'scheduled', 'done', 'cancelled')),
    description text NOT NULL CHECK (description <> ''),
    reported_at timestamptz NOT NULL,
    arrived_at  timestamptz,
    CHECK ((status = 'done') = (arrived_at IS NOT NULL)),
    CHECK (arrived_at >= reported_at),
    CHECK (kind <> 'emergency' OR priority = 'urgent')
);
CREATE INDEX jobs_by_unit ON jobs (unit_id);

-- Half-days of technicians: free, on leave, or given to one job.
CREATE TABLE slots (
    technician_id text NOT NULL REFERENCES technicians,
    day           date NOT NULL,
    half          text NOT NULL CHECK (half IN ('am', 'pm')),
    on_leave      boolean NOT NULL,
    job_id        text UNIQUE REFERENCES jobs,
    PRIMARY KEY (technician_id, day, half),
    CHECK (NOT on_leave OR job_id IS NULL)
);

CREATE TABLE parts (
    part_id text PRIMARY KEY CHECK (part_id ~ '^P-[0-9]+$'),
    name    text NOT NULL UNIQUE,
    price   numeric(10, 2) NOT NULL CHECK (price > 0),
    stock   integer NOT NULL CHECK (stock >= 0),
    fits    text[] NOT NULL
);

CREATE TABLE job_parts (
    job_id     text NOT NULL REFERENCES jobs,
    part_id    text NOT NULL REFERENCES parts,
    quantity   integer NOT NULL CHECK (quantity > 0),
    unit_price numeric(10, 2) NOT NULL CHECK (unit_price > 0),
    PRIMARY KEY (job_id, part_id)
);

CREATE TABLE invoices (
    invoice_id      text PRIMARY KEY CHECK (invoice_id ~ '^I-[0-9]+$'),
    job_id          text NOT NULL UNIQUE REFERENCES jobs,
    currency        text NOT NULL CHECK (currency IN ('EUR', 'CHF')),
    callout         numeric(10, 2) NOT NULL CHECK (callout >= 0),
    labour          numeric(10, 2) NOT NULL CHECK (labour >= 0),
    material        numeric(10, 2) NOT NULL CHECK (material >= 0),
    amount          numeric(10, 2) NOT NULL CHECK (amount = callout + labour + material),
    issued_on       date NOT NULL,
    original_due_on date NOT NULL CHECK (original_due_on >= issued_on),
    due_on          date NOT NULL,
    status          text NOT NULL CHECK (status IN ('open', 'paid')),
    CHECK (due_on >= original_due_on)
);

CREATE TABLE approvals (
    approval_id text PRIMARY KEY CHECK (approval_id ~ '^A-[0-9]+$'),
    topic       text NOT NULL CHECK (topic IN ('credit', 'part', 'due_date', 'contract_end')),
    reference   text NOT NULL,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    status      text NOT NULL CHECK (status IN ('granted', 'pending')),
    created_at  timestamptz NOT NULL
);

CREATE TABLE credits (
    credit_id   text PRIMARY KEY CHECK (credit_id ~ '^R-[0-9]+$'),
    invoice_id  text NOT NULL REFERENCES invoices,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    reason      text NOT NULL CHECK (reason IN ('covered', 'overbilled', 'late_response', 'goodwill')),
    approval_id text UNIQUE REFERENCES approvals,
    created_at  timestamptz NOT NULL
);

CREATE TABLE notifications (
    notification_id text PRIMARY KEY CHECK (notification_id ~ '^N-[0-9]+$'),
    contact_id      text NOT NULL REFERENCES contacts,
    template        text NOT NULL CHECK (template IN
                    ('visit_booked', 'visit_moved', 'visit_cancelled', 'emergency_booked',
                     'credit_note', 'due_date_moved', 'contract_ended')),
    reference       text NOT NULL,
    sent_at         timestamptz NOT NULL
);

-- What must be provable later; written by people and the desk, not by itself.
CREATE TABLE journal (
    entry_id  text PRIMARY KEY CHECK (entry_id ~ '^L-[0-9]+$'),
    reference text NOT NULL,
    action    text NOT NULL CHECK (action IN
              ('safety', 'safety_cleared', 'returned_to_service', 'cancelled', 'credited',
               'notice_given', 'remark')),
    detail    text NOT NULL CHECK (detail <> ''),
    at        timestamptz NOT NULL
);
CREATE INDEX journal_by_reference ON journal (reference);

CREATE TABLE escalations (
    escalation_id text PRIMARY KEY CHECK (escalation_id ~ '^X-[0-9]+$'),
    contact_id    text NOT NULL REFERENCES contacts,
    topic         text NOT NULL CHECK (topic IN
                  ('account_security', 'authorisation', 'credit_hold', 'dispatch',
                   'late_cancellation', 'purchasing', 'collections', 'other')),
    reference     text NOT NULL,
    note          text NOT NULL CHECK (note <> ''),
    created_at    timestamptz NOT NULL
);
