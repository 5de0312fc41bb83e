-- Ankerhof, a house that stores and ships the goods of other firms, its merchants. All quantities are pieces.

CREATE TABLE merchants (
    merchant_id text PRIMARY KEY CHECK (merchant_id ~ '^MC-[0-9]+$'),
    firm        text NOT NULL UNIQUE,
    country     text NOT NULL CHECK (country IN ('DE', 'AT', 'CH', 'GB', 'US')),
    currency    text NOT NULL,
    cover       text NOT NULL CHECK (cover IN ('basic', 'full')),
    status      text NOT NULL CHECK (status IN ('active', 'on_hold')),
    note        text NOT NULL,
    since       date NOT NULL,
    CHECK (currency = CASE country WHEN 'CH' THEN 'CHF' WHEN 'GB' THEN 'GBP' WHEN 'US' THEN 'USD' ELSE 'EUR' END)
);

-- Users of merchants, and the house's own floor staff, who belong to none.
CREATE TABLE desk_callers (
    caller_id   text PRIMARY KEY CHECK (caller_id ~ '^DC-[0-9]+$'),
    merchant_id text REFERENCES merchants,
    name        text NOT NULL,
    email       text NOT NULL UNIQUE CHECK (email = lower(email)),
    role        text NOT NULL,
    active      boolean NOT NULL,
    CHECK (CASE WHEN merchant_id IS NULL THEN role IN ('receiver', 'picker', 'returns', 'lead')
           ELSE role IN ('owner', 'logistics', 'service', 'viewer') END)
);
CREATE INDEX desk_callers_by_merchant ON desk_callers (merchant_id);
CREATE UNIQUE INDEX one_owner_of_a_merchant ON desk_callers (merchant_id) WHERE role = 'owner';

CREATE TABLE skus (
    sku_id      text PRIMARY KEY CHECK (sku_id ~ '^SK-[0-9]+$'),
    merchant_id text NOT NULL REFERENCES merchants,
    title       text NOT NULL CHECK (title <> ''),
    kind        text NOT NULL CHECK (kind IN ('general', 'food', 'cosmetic', 'liquid')),
    storage     text NOT NULL CHECK (storage IN ('ambient', 'cold')),
    case_size   integer NOT NULL CHECK (case_size > 0),
    unit_value  numeric(10, 2) NOT NULL CHECK (unit_value > 0),
    sold_by     text NOT NULL CHECK (sold_by IN ('piece', 'carton'))
);
CREATE INDEX skus_by_merchant ON skus (merchant_id);

CREATE TABLE stock_lots (
    lot_id      text PRIMARY KEY,
    sku_id      text NOT NULL REFERENCES skus,
    lot_code    text NOT NULL CHECK (lot_code ~ '^[A-Z][A-Z0-9]+$'),
    best_before date,
    CHECK (lot_id = sku_id || '/' || lot_code)
);
CREATE INDEX stock_lots_by_sku ON stock_lots (sku_id);

CREATE TABLE bins (
    bin_id   text PRIMARY KEY CHECK (bin_id ~ '^[A-Z]-[0-9]{2,3}-[0-9]$'),
    zone     text NOT NULL CHECK (zone IN ('ambient', 'cold', 'outlet', 'quarantine')),
    capacity integer NOT NULL CHECK (capacity > 0),
    remark   text NOT NULL
);

-- `held` pieces are reserved for outbounds.
CREATE TABLE bin_stock (
    bin_id  text NOT NULL REFERENCES bins,
    lot_id  text NOT NULL REFERENCES stock_lots,
    on_hand integer NOT NULL CHECK (on_hand >= 0),
    held    integer NOT NULL CHECK (held >= 0),
    CONSTRAINT held_pieces_are_on_hand CHECK (held <= on_hand),
    PRIMARY KEY (bin_id, lot_id)
);
CREATE INDEX bin_stock_by_lot ON bin_stock (lot_id);

CREATE TABLE inbounds (
    inbound_id  text PRIMARY KEY CHECK (inbound_id ~ '^IB-[0-9]+$'),
    merchant_id text NOT NULL REFERENCES merchants,
    supplier    text NOT NULL,
    arrived_on  date NOT NULL,
    status      text NOT NULL CHECK (status IN ('arrived', 'closed')),
    remark      text NOT NULL
);
CREATE INDEX inbounds_by_merchant ON inbounds (merchant_id);

CREATE TABLE inbound_lines (
    inbound_id text NOT NULL REFERENCES inbounds,
    sku_id     text NOT NULL REFERENCES skus,
    announced  integer NOT NULL CHECK (announced > 0),
    good       integer CHECK (good >= 0),
    damaged    integer CHECK (damaged >= 0),
    lot_id     text REFERENCES stock_lots,
    PRIMARY KEY (inbound_id, sku_id),
    CHECK (good + damaged > 0),
    CHECK ((good IS NULL) = (damaged IS NULL) AND (good IS NULL) = (lot_id IS NULL))
);

CREATE TABLE outbounds (
    outbound_id  text PRIMARY KEY CHECK (outbound_id ~ '^OB-[0-9]+$'),
    merchant_id  text NOT NULL REFERENCES merchants,
    customer     text NOT NULL,
    street       text NOT NULL CHECK (btrim(street) <> ''),
    postcode     text NOT NULL CHECK (btrim(postcode) <> ''),
    town         text NOT NULL CHECK (btrim(town) <> ''),
    country      text NOT NULL CHECK (country IN ('DE', 'AT', 'CH', 'GB', 'US', 'FR', 'IT')),
    service      text NOT NULL CHECK (service IN ('standard', 'express')),
    status       text NOT NULL CHECK (status IN ('new', 'held', 'picking', 'packed', 'shipped', 'cancelled')),
    ordered_on   date NOT NULL,
    shipped_on   date CHECK (shipped_on >= ordered_on),
    parcel_state text CHECK (parcel_state IN ('on_the_way', 'delivered', 'lost', 'sent_back')),
    CHECK ((status = 'shipped') = (shipped_on IS NOT NULL) AND (shipped_on IS NULL) = (parcel_state IS NULL))
);
CREATE INDEX outbounds_by_merchant ON outbounds (merchant_id);

-- The pieces of a line are held in its bin until the outbound ships or is cancelled.
CREATE TABLE outbound_lines (
    outbound_id text NOT NULL REFERENCES outbounds,
    lot_id      text NOT NULL REFERENCES stock_lots,
    bin_id      text NOT NULL,
    pieces      integer NOT NULL CHECK (pieces > 0),
    PRIMARY KEY (outbound_id, lot_id),
    FOREIGN KEY (bin_id, lot_id) REFERENCES bin_stock
);
CREATE INDEX outbound_lines_by_lot ON outbound_lines (lot_id);

CREATE TABLE return_parcels (
    return_id   text PRIMARY KEY CHECK (return_id ~ '^RT-[0-9]+$'),
    outbound_id text NOT NULL REFERENCES outbounds,
    reason      text NOT NULL CHECK (reason IN ('changed_mind', 'wrong_item', 'faulty', 'refused')),
    arrived_on  date NOT NULL,
    slip        text NOT NULL
);
CREATE INDEX return_parcels_by_outbound ON return_parcels (outbound_id);

-- Pieces announced by the customer, and pieces put away by grade: A as new, B opened, C neither.
CREATE TABLE return_items (
    return_id text NOT NULL REFERENCES return_parcels,
    lot_id    text NOT NULL REFERENCES stock_lots,
    announced integer NOT NULL CHECK (announced > 0),
    grade_a   integer NOT NULL CHECK (grade_a >= 0),
    grade_b   integer NOT NULL CHECK (grade_b >= 0),
    grade_c   integer NOT NULL CHECK (grade_c >= 0),
    PRIMARY KEY (return_id, lot_id)
);

CREATE TABLE quarantine_cases (
    quarantine_id text PRIMARY KEY CHECK (quarantine_id ~ '^QC-[0-9]+$'),
    lot_id        text NOT NULL REFERENCES stock_lots,
    reason        text NOT NULL CHECK (reason IN ('damage', 'temperature', 'mix_up', 'expiry', 'recall', 'customs')),
    inspection    text CHECK (inspection IN ('pass', 'fail')),
    opened_on     date NOT NULL,
    ended_on      date CHECK (ended_on >= opened_on),
    report        text NOT NULL CHECK (btrim(report) <> ''),
    approval_id   text UNIQUE
);
CREATE UNIQUE INDEX one_open_case_of_a_lot ON quarantine_cases (lot_id) WHERE ended_on IS NULL;

-- A sheet without a figure is ordered and not counted yet.
CREATE TABLE count_sheets (
    sheet_id   text PRIMARY KEY CHECK (sheet_id ~ '^CT-[0-9]+$'),
    bin_id     text NOT NULL,
    lot_id     text NOT NULL,
    ordered_on date NOT NULL,
    counted    integer CHECK (counted >= 0),
    counted_by text,
    counted_on date CHECK (counted_on >= ordered_on),
    FOREIGN KEY (bin_id, lot_id) REFERENCES bin_stock,
    CHECK ((counted IS NULL) = (counted_by IS NULL) AND (counted IS NULL) = (counted_on IS NULL))
);
CREATE INDEX count_sheets_by_lot ON count_sheets (lot_id);

CREATE TABLE controller_approvals (
    approval_id text PRIMARY KEY CHECK (approval_id ~ '^CA-[0-9]+$'),
    matter      text NOT NULL CHECK (matter IN ('adjustment', 'release', 'destruction', 'loss')),
    record      text NOT NULL,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    answer      text NOT NULL CHECK (answer IN ('granted', 'pending')),
    asked_at    timestamptz NOT NULL
);
ALTER TABLE quarantine_cases ADD FOREIGN KEY (approval_id) REFERENCES controller_approvals;

CREATE TABLE stock_adjustments (
    adjustment_id text PRIMARY KEY CHECK (adjustment_id ~ '^AD-[0-9]+$'),
    bin_id        text NOT NULL,
    lot_id        text NOT NULL,
    delta         integer NOT NULL CHECK (delta <> 0),
    reason        text NOT NULL CHECK (reason IN ('count', 'house_damage', 'house_loss', 'destruction')),
    made_on       date NOT NULL,
    approval_id   text UNIQUE REFERENCES controller_approvals,
    FOREIGN KEY (bin_id, lot_id) REFERENCES bin_stock
);
CREATE INDEX stock_adjustments_by_lot ON stock_adjustments (lot_id);

-- What happened to the stock of a lot, written by the desk and not by itself.
CREATE TABLE stock_journal (
    entry_id text PRIMARY KEY CHECK (entry_id ~ '^SJ-[0-9]+$'),
    lot_id   text NOT NULL REFERENCES stock_lots,
    event    text NOT NULL CHECK (event IN
             ('received', 'moved', 'adjusted', 'quarantined', 'released', 'destroyed', 'returned')),
    pieces   integer NOT NULL,
    note     text NOT NULL CHECK (btrim(note) <> ''),
    at       timestamptz NOT NULL
);
CREATE INDEX stock_journal_by_lot ON stock_journal (lot_id);

CREATE TABLE merchant_notices (
    notice_id text PRIMARY KEY CHECK (notice_id ~ '^MN-[0-9]+$'),
    caller_id text NOT NULL REFERENCES desk_callers,
    template  text NOT NULL CHECK (template IN
              ('received', 'received_damaged', 'recount_ordered', 'adjusted', 'quarantined', 'released', 'destroyed',
               'outbound_held', 'outbound_resumed', 'outbound_cancelled', 'outbound_changed', 'returned', 'loss_paid')),
    record    text NOT NULL,
    sent_at   timestamptz NOT NULL
);

-- What the house charges a merchant, and, for a loss, pays.
CREATE TABLE merchant_postings (
    posting_id  text PRIMARY KEY CHECK (posting_id ~ '^MP-[0-9]+$'),
    merchant_id text NOT NULL REFERENCES merchants,
    kind        text NOT NULL CHECK (kind IN ('cancellation', 'rush', 'destruction', 'return_handling', 'loss')),
    record      text NOT NULL,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    approval_id text UNIQUE REFERENCES controller_approvals,
    posted_on   date NOT NULL
);
CREATE INDEX merchant_postings_by_record ON merchant_postings (record);

CREATE TABLE warehouse_escalations (
    escalation_id  text PRIMARY KEY CHECK (escalation_id ~ '^WE-[0-9]+$'),
    caller_id  text NOT NULL REFERENCES desk_callers,
    team       text NOT NULL CHECK (team IN ('security', 'merchant_owner', 'shift_office', 'accounts', 'inbound_office',
               'returns_audit', 'quality', 'carrier_claims', 'other')),
    record     text NOT NULL,
    note       text NOT NULL CHECK (btrim(note) <> ''),
    created_at timestamptz NOT NULL
);
