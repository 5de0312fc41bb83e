-- Kestrel & Quay Hotels. A stay is a booking and what becomes of it; a folio is all money of one stay.

CREATE TABLE houses (
    house    text PRIMARY KEY CHECK (house ~ '^[A-Z]{3}$'),
    name     text NOT NULL UNIQUE,
    city     text NOT NULL,
    currency text NOT NULL CHECK (currency IN ('EUR', 'GBP', 'DKK'))
);

CREATE TABLE room_kinds (
    house text NOT NULL REFERENCES houses,
    kind  text NOT NULL CHECK (kind IN ('standard', 'superior', 'family', 'suite')),
    rank  integer NOT NULL CHECK (rank BETWEEN 1 AND 4),
    rack  numeric(10, 2) NOT NULL CHECK (rack > 0),
    PRIMARY KEY (house, kind),
    UNIQUE (house, rank)
);

CREATE TABLE rooms (
    room         text PRIMARY KEY CHECK (room ~ '^[A-Z]{3}-[0-9]{3}$'),
    house        text NOT NULL,
    kind         text NOT NULL,
    out_of_order boolean NOT NULL,
    FOREIGN KEY (house, kind) REFERENCES room_kinds,
    CHECK (starts_with(room, house))
);

-- How many rooms of a kind can still be sold in a night.
CREATE TABLE room_nights (
    house     text NOT NULL,
    kind      text NOT NULL,
    night     date NOT NULL,
    left_open integer NOT NULL CHECK (left_open >= 0),
    PRIMARY KEY (house, kind, night),
    FOREIGN KEY (house, kind) REFERENCES room_kinds
);

CREATE TABLE guests (
    guest_id text PRIMARY KEY CHECK (guest_id ~ '^GU-[0-9]+$'),
    name     text NOT NULL,
    email    text NOT NULL UNIQUE CHECK (email = lower(email)),
    phone    text NOT NULL,
    country  text NOT NULL CHECK (country ~ '^[A-Z]{2}$'),
    tier     text NOT NULL CHECK (tier IN ('none', 'silver', 'gold', 'platinum')),
    since    date NOT NULL
);

-- Firms with an account; `covers` are the folio items that they pay for their people.
CREATE TABLE firms (
    firm_id    text PRIMARY KEY CHECK (firm_id ~ '^CO-[0-9]+$'),
    name       text NOT NULL UNIQUE,
    covers     text[] NOT NULL,
    bill_limit numeric(10, 2) NOT NULL CHECK (bill_limit > 0),
    suspended  boolean NOT NULL
);

CREATE TABLE tariffs (
    tariff  text PRIMARY KEY CHECK (tariff IN ('flex', 'saver', 'fixed')),
    name    text NOT NULL,
    prepaid boolean NOT NULL
);

CREATE TABLE stays (
    stay_id       text PRIMARY KEY CHECK (stay_id ~ '^KQ-[0-9]+$'),
    guest_id      text NOT NULL REFERENCES guests,
    house         text NOT NULL,
    kind          text NOT NULL,
    tariff        text NOT NULL REFERENCES tariffs,
    source        text NOT NULL CHECK (source IN ('direct', 'agency', 'firm')),
    firm_id       text REFERENCES firms,
    arrive        date NOT NULL,
    depart        date NOT NULL,
    nightly       numeric(10, 2) NOT NULL CHECK (nightly > 0),
    status        text NOT NULL CHECK (status IN ('booked', 'in_house', 'departed', 'cancelled', 'no_show')),
    room          text REFERENCES rooms,
    checkout_hour integer NOT NULL CHECK (checkout_hour BETWEEN 11 AND 20),
    remark        text NOT NULL,
    FOREIGN KEY (house, kind) REFERENCES room_kinds,
    CHECK (depart > arrive),
    CHECK ((status IN ('in_house', 'departed')) = (room IS NOT NULL)),
    CHECK ((source = 'firm') = (firm_id IS NOT NULL))
);
CREATE INDEX stays_by_guest ON stays (guest_id);
CREATE UNIQUE INDEX one_stay_a_room ON stays (room) WHERE status = 'in_house';

-- What the duty manager was asked for and said.
CREATE TABLE duty_signoffs (
    signoff_id text PRIMARY KEY CHECK (signoff_id ~ '^DS-[0-9]+$'),
    matter     text NOT NULL CHECK (matter IN ('allowance', 'waiver', 'block', 'firm_bill')),
    record     text NOT NULL,
    amount     numeric(10, 2) NOT NULL CHECK (amount > 0),
    decision   text NOT NULL CHECK (decision IN ('granted', 'waiting')),
    asked_at   timestamptz NOT NULL
);

-- Charges and paybacks are positive; payments, vouchers and allowances negative. The balance is the sum.
CREATE TABLE folio_lines (
    line_id    text PRIMARY KEY CHECK (line_id ~ '^FL-[0-9]+$'),
    stay_id    text NOT NULL REFERENCES stays,
    item       text NOT NULL CHECK (item IN
               ('room', 'breakfast', 'parking', 'minibar', 'laundry', 'cancellation', 'early_departure', 'late_checkout',
                'shipping', 'no_show', 'allowance', 'payment', 'payback', 'voucher')),
    amount     numeric(10, 2) NOT NULL CHECK (amount <> 0),
    night      date,
    payer      text NOT NULL CHECK (payer IN ('guest', 'firm')),
    reason     text CHECK (reason IN
               ('defect', 'charged_twice', 'wrong_rate', 'not_consumed', 'no_show', 'goodwill')),
    signoff_id text UNIQUE REFERENCES duty_signoffs,
    posted_at  timestamptz NOT NULL,
    CHECK ((amount < 0) = (item IN ('allowance', 'payment', 'voucher'))),
    CHECK ((item = 'allowance') = (reason IS NOT NULL))
);
CREATE INDEX folio_lines_by_stay ON folio_lines (stay_id);

CREATE TABLE stay_vouchers (
    voucher_id  text PRIMARY KEY CHECK (voucher_id ~ '^VO-[0-9]+$'),
    guest_id    text NOT NULL REFERENCES guests,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    currency    text NOT NULL CHECK (currency IN ('EUR', 'GBP', 'DKK')),
    valid_until date NOT NULL,
    used_for    text REFERENCES stays
);

CREATE TABLE star_points (
    entry_id    text PRIMARY KEY CHECK (entry_id ~ '^SP-[0-9]+$'),
    guest_id    text NOT NULL REFERENCES guests,
    stay_id     text REFERENCES stays,
    points      integer NOT NULL CHECK (points <> 0),
    credited_at timestamptz NOT NULL
);
CREATE INDEX star_points_by_guest ON star_points (guest_id);

CREATE TABLE group_blocks (
    block_id   text PRIMARY KEY CHECK (block_id ~ '^GR-[0-9]+$'),
    guest_id   text NOT NULL REFERENCES guests,
    title      text NOT NULL CHECK (title <> ''),
    house      text NOT NULL,
    kind       text NOT NULL,
    arrive     date NOT NULL,
    depart     date NOT NULL,
    contracted integer NOT NULL CHECK (contracted > 0),
    held       integer NOT NULL CHECK (held >= 0),
    nightly    numeric(10, 2) NOT NULL CHECK (nightly > 0),
    release_on date NOT NULL,
    FOREIGN KEY (house, kind) REFERENCES room_kinds,
    CHECK (depart > arrive AND release_on <= arrive)
);

CREATE TABLE found_items (
    item_id     text PRIMARY KEY CHECK (item_id ~ '^FI-[0-9]+$'),
    room        text NOT NULL REFERENCES rooms,
    found_on    date NOT NULL,
    description text NOT NULL CHECK (description <> ''),
    valuable    boolean NOT NULL,
    state       text NOT NULL CHECK (state IN ('held', 'sent', 'set_aside')),
    stay_id     text REFERENCES stays,
    CHECK ((state = 'held') = (stay_id IS NULL))
);

CREATE TABLE defects (
    defect_id text PRIMARY KEY CHECK (defect_id ~ '^DF-[0-9]+$'),
    room      text NOT NULL REFERENCES rooms,
    problem   text NOT NULL CHECK (problem IN
              ('water', 'heating', 'power', 'lock', 'noise', 'internet', 'furniture')),
    urgent    boolean NOT NULL,
    detail    text NOT NULL CHECK (trim(detail) <> ''),
    opened_on date NOT NULL,
    fixed_on  date,
    CHECK (fixed_on >= opened_on)
);
CREATE INDEX defects_by_room ON defects (room);

CREATE TABLE letters (
    letter_id text PRIMARY KEY CHECK (letter_id ~ '^LT-[0-9]+$'),
    guest_id  text NOT NULL REFERENCES guests,
    letter    text NOT NULL CHECK (letter IN
              ('cancelled', 'dates_changed', 'late_checkout', 'room_moved', 'folio_corrected', 'voucher_used',
               'points_credited', 'block_changed', 'item_sent', 'item_ready', 'bill_split')),
    record    text NOT NULL,
    sent_at   timestamptz NOT NULL
);

-- What the night audit reads; written by people and the desk, not by itself.
CREATE TABLE logbook (
    entry_id text PRIMARY KEY CHECK (entry_id ~ '^LG-[0-9]+$'),
    record   text NOT NULL,
    entry    text NOT NULL CHECK (entry IN
             ('cancelled', 'fee_waived', 'dates_changed', 'room_moved', 'allowance', 'block_changed', 'item_released',
              'billed_to_firm', 'arrival_announced', 'remark')),
    detail   text NOT NULL CHECK (trim(detail) <> ''),
    at       timestamptz NOT NULL
);
CREATE INDEX logbook_by_record ON logbook (record);

CREATE TABLE handovers (
    handover_id text PRIMARY KEY CHECK (handover_id ~ '^HO-[0-9]+$'),
    guest_id    text NOT NULL REFERENCES guests,
    desk        text NOT NULL CHECK (desk IN ('privacy', 'rooms_division', 'groups', 'accounts', 'security', 'other')),
    record      text NOT NULL,
    note        text NOT NULL CHECK (trim(note) <> ''),
    at          timestamptz NOT NULL
);
