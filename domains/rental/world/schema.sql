-- Marram Plant Hire. A hire is one machine for one hirer from day to day; its charges are all money of it.

CREATE TABLE hire_depots (
    depot      text PRIMARY KEY CHECK (depot ~ '^[A-Z]{3}$'),
    city       text NOT NULL UNIQUE,
    currency   text NOT NULL CHECK (currency IN ('EUR', 'GBP', 'PLN')),
    zone_a     numeric(10, 2) NOT NULL CHECK (zone_a > 0),
    zone_b     numeric(10, 2) NOT NULL CHECK (zone_b > zone_a),
    zone_c     numeric(10, 2) NOT NULL CHECK (zone_c > zone_b),
    fuel_litre numeric(10, 2) NOT NULL CHECK (fuel_litre > 0)
);

CREATE TABLE machine_classes (
    class       text PRIMARY KEY CHECK (class ~ '^[a-z_]+$'),
    name        text NOT NULL UNIQUE,
    heavy       boolean NOT NULL,
    card_group  text CHECK (card_group IN ('excavator', 'telehandler', 'platform')),
    tank_litres integer NOT NULL CHECK (tank_litres >= 0)
);

CREATE TABLE class_rates (
    depot    text NOT NULL REFERENCES hire_depots,
    class    text NOT NULL REFERENCES machine_classes,
    day_rate numeric(10, 2) NOT NULL CHECK (day_rate > 0),
    deposit  numeric(10, 2) NOT NULL CHECK (deposit > 0),
    PRIMARY KEY (depot, class)
);

CREATE TABLE machines (
    machine_id   text PRIMARY KEY CHECK (machine_id ~ '^MX-[0-9]+$'),
    depot        text NOT NULL,
    class        text NOT NULL,
    state        text NOT NULL CHECK (state IN ('ready', 'workshop', 'missing')),
    tested_until date NOT NULL,
    tracker_seen timestamptz,
    police_ref   text CHECK (trim(police_ref) <> ''),
    sticker      text NOT NULL,
    FOREIGN KEY (depot, class) REFERENCES class_rates,
    CHECK ((state = 'missing') = (police_ref IS NOT NULL))
);
CREATE INDEX machines_by_class ON machines (depot, class);

CREATE TABLE hirers (
    hirer_id     text PRIMARY KEY CHECK (hirer_id ~ '^HR-[0-9]+$'),
    name         text NOT NULL UNIQUE,
    kind         text NOT NULL CHECK (kind IN ('private', 'trade', 'public')),
    currency     text NOT NULL CHECK (currency IN ('EUR', 'GBP', 'PLN')),
    credit_limit numeric(10, 2) CHECK (credit_limit > 0),
    open_balance numeric(10, 2) NOT NULL CHECK (open_balance >= 0),
    on_stop      boolean NOT NULL,
    CHECK ((kind = 'private') = (credit_limit IS NULL))
);

CREATE TABLE hirer_contacts (
    contact_id text PRIMARY KEY CHECK (contact_id ~ '^CP-[0-9]+$'),
    hirer_id   text NOT NULL REFERENCES hirers,
    name       text NOT NULL,
    email      text NOT NULL UNIQUE CHECK (email = lower(email)),
    phone      text NOT NULL,
    owner      boolean NOT NULL,
    may_order  boolean NOT NULL,
    CHECK (may_order OR NOT owner)
);
CREATE UNIQUE INDEX one_owner ON hirer_contacts (hirer_id) WHERE owner;

CREATE TABLE operator_cards (
    card_id     text PRIMARY KEY CHECK (card_id ~ '^OC-[0-9]+$'),
    hirer_id    text NOT NULL REFERENCES hirers,
    holder      text NOT NULL,
    card_group  text NOT NULL CHECK (card_group IN ('excavator', 'telehandler', 'platform')),
    valid_until date NOT NULL,
    UNIQUE (hirer_id, holder, card_group)
);

CREATE TABLE hires (
    hire_id     text PRIMARY KEY CHECK (hire_id ~ '^RH-[0-9]+$'),
    hirer_id    text NOT NULL REFERENCES hirers,
    machine_id  text NOT NULL REFERENCES machines,
    starts_on   date NOT NULL,
    ends_on     date NOT NULL,
    returned_on date,
    day_rate    numeric(10, 2) NOT NULL CHECK (day_rate > 0),
    price       numeric(10, 2) NOT NULL CHECK (price > 0),
    term        text NOT NULL CHECK (term IN ('flexible', 'fixed')),
    waiver      boolean NOT NULL,
    site_zone   text CHECK (site_zone IN ('A', 'B', 'C')),
    status      text NOT NULL CHECK (status IN ('reserved', 'on_hire', 'returned', 'cancelled', 'stolen')),
    note        text NOT NULL,
    CHECK (ends_on >= starts_on),
    CHECK ((status = 'returned') = (returned_on IS NOT NULL))
);
CREATE INDEX hires_by_hirer ON hires (hirer_id);
CREATE INDEX hires_by_machine ON hires (machine_id);

-- What a branch manager was asked for and said.
CREATE TABLE manager_clearances (
    clearance_id text PRIMARY KEY CHECK (clearance_id ~ '^MC-[0-9]+$'),
    matter       text NOT NULL CHECK (matter IN ('credit', 'damage', 'credit_limit')),
    record       text NOT NULL,
    amount       numeric(10, 2) NOT NULL CHECK (amount > 0),
    decision     text NOT NULL CHECK (decision IN ('granted', 'pending')),
    asked_at     timestamptz NOT NULL
);

CREATE TABLE return_checks (
    check_id   text PRIMARY KEY CHECK (check_id ~ '^RC-[0-9]+$'),
    hire_id    text NOT NULL UNIQUE REFERENCES hires,
    checked_on date NOT NULL,
    fuel_out   integer NOT NULL CHECK (fuel_out BETWEEN 0 AND 100),
    fuel_in    integer NOT NULL CHECK (fuel_in BETWEEN 0 AND 100),
    hours_out  integer NOT NULL CHECK (hours_out >= 0),
    hours_in   integer NOT NULL,
    remark     text NOT NULL,
    CHECK (hours_in >= hours_out)
);

CREATE TABLE damage_items (
    damage_id text PRIMARY KEY CHECK (damage_id ~ '^DI-[0-9]+$'),
    check_id  text NOT NULL REFERENCES return_checks,
    what      text NOT NULL CHECK (trim(what) <> ''),
    cause     text NOT NULL CHECK (cause IN ('wear', 'accident', 'misuse', 'glass', 'tyre')),
    cost      numeric(10, 2) NOT NULL CHECK (cost > 0),
    charged   boolean NOT NULL
);
CREATE INDEX damage_items_by_check ON damage_items (check_id);

-- Credits and payments are negative, all others positive. The balance is the sum.
CREATE TABLE hire_charges (
    charge_id    text PRIMARY KEY CHECK (charge_id ~ '^HC-[0-9]+$'),
    hire_id      text NOT NULL REFERENCES hires,
    item         text NOT NULL CHECK (item IN ('hire', 'transport', 'cancellation', 'late', 'fuel', 'overtime', 'cleaning',
                                               'damage', 'credit', 'payment')),
    amount       numeric(10, 2) NOT NULL CHECK (amount <> 0),
    for_day      date NOT NULL,
    reason       text CHECK (reason IN ('early_return', 'downtime', 'late', 'fuel', 'overtime', 'double', 'wrong_rate', 'goodwill')),
    damage_id    text UNIQUE REFERENCES damage_items,
    clearance_id text REFERENCES manager_clearances,
    posted_at    timestamptz NOT NULL,
    CHECK ((amount < 0) = (item IN ('credit', 'payment'))),
    CHECK ((item = 'credit') = (reason IS NOT NULL)),
    CHECK ((item = 'damage') = (damage_id IS NOT NULL))
);
CREATE INDEX hire_charges_by_hire ON hire_charges (hire_id);

CREATE TABLE hire_invoices (
    invoice_id      text PRIMARY KEY CHECK (invoice_id ~ '^HI-[0-9]+$'),
    hire_id         text NOT NULL REFERENCES hires,
    issued_on       date NOT NULL,
    amount          numeric(10, 2) NOT NULL CHECK (amount > 0),
    state           text NOT NULL CHECK (state IN ('draft', 'sent', 'paid')),
    order_reference text CHECK (length(trim(order_reference)) BETWEEN 1 AND 40)
);
CREATE INDEX hire_invoices_by_hire ON hire_invoices (hire_id);

CREATE TABLE deposits_held (
    deposit_id text PRIMARY KEY CHECK (deposit_id ~ '^DP-[0-9]+$'),
    hire_id    text NOT NULL UNIQUE REFERENCES hires,
    amount     numeric(10, 2) NOT NULL CHECK (amount > 0),
    released   numeric(10, 2) CHECK (released BETWEEN 0 AND amount)
);

-- How many runs the trucks of a depot can still make in a half-day; there is no row for a Sunday.
CREATE TABLE truck_slots (
    depot     text NOT NULL REFERENCES hire_depots,
    run_day   date NOT NULL CHECK (extract(isodow FROM run_day) < 7),
    half      text NOT NULL CHECK (half IN ('am', 'pm')),
    left_free integer NOT NULL CHECK (left_free >= 0),
    PRIMARY KEY (depot, run_day, half)
);

CREATE TABLE truck_runs (
    run_id    text PRIMARY KEY CHECK (run_id ~ '^TR-[0-9]+$'),
    hire_id   text NOT NULL REFERENCES hires,
    direction text NOT NULL CHECK (direction IN ('deliver', 'collect')),
    run_day   date NOT NULL,
    half      text NOT NULL CHECK (half IN ('am', 'pm')),
    state     text NOT NULL CHECK (state IN ('planned', 'done', 'dropped'))
);
CREATE UNIQUE INDEX one_planned_run ON truck_runs (hire_id, direction) WHERE state = 'planned';

CREATE TABLE breakdowns (
    breakdown_id text PRIMARY KEY CHECK (breakdown_id ~ '^BD-[0-9]+$'),
    hire_id      text NOT NULL REFERENCES hires,
    symptom      text NOT NULL CHECK (symptom IN ('engine', 'hydraulics', 'electrics', 'tyre', 'other')),
    detail       text NOT NULL CHECK (trim(detail) <> ''),
    reported_on  date NOT NULL,
    fixed_on     date,
    finding      text CHECK (finding IN ('wear', 'misuse')),
    CHECK (fixed_on >= reported_on)
);
CREATE INDEX breakdowns_by_hire ON breakdowns (hire_id);

CREATE TABLE hire_notices (
    notice_id  text PRIMARY KEY CHECK (notice_id ~ '^HN-[0-9]+$'),
    contact_id text NOT NULL REFERENCES hirer_contacts,
    notice     text NOT NULL CHECK (notice IN ('hire_confirmed', 'dates_changed', 'cancelled', 'transport_set', 'machine_swapped',
                                               'credit_given', 'damage_bill', 'deposit_settled', 'invoice_reissued', 'rights_changed')),
    record     text NOT NULL,
    sent_at    timestamptz NOT NULL
);

-- What the auditors read; written by the desk, not by itself.
CREATE TABLE hire_log (
    entry_id text PRIMARY KEY CHECK (entry_id ~ '^HL-[0-9]+$'),
    record   text NOT NULL,
    entry    text NOT NULL CHECK (entry IN ('reserved', 'end_changed', 'cancelled', 'transport', 'collection_asked', 'swapped', 'credited',
                                            'damage_charged', 'deposit_settled', 'reference_set', 'reported_stolen', 'rights_changed', 'remark')),
    detail   text NOT NULL CHECK (trim(detail) <> ''),
    at       timestamptz NOT NULL
);
CREATE INDEX hire_log_by_record ON hire_log (record);

CREATE TABLE escalated_matters (
    matter_id  text PRIMARY KEY CHECK (matter_id ~ '^EM-[0-9]+$'),
    contact_id text NOT NULL REFERENCES hirer_contacts,
    team       text NOT NULL CHECK (team IN ('data_protection', 'credit_control', 'workshop', 'claims', 'accounts', 'security', 'key_accounts')),
    record     text NOT NULL,
    note       text NOT NULL CHECK (trim(note) <> ''),
    at         timestamptz NOT NULL
);
