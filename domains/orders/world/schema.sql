-- The order desk. Every table has a primary key; ids are short text such as O-1042.

CREATE TABLE customers (
    customer_id text PRIMARY KEY CHECK (customer_id ~ '^C-[0-9]+$'),
    name        text NOT NULL,
    email       text NOT NULL UNIQUE CHECK (email = lower(email)),
    tier        text NOT NULL CHECK (tier IN ('standard', 'gold')),
    country     text NOT NULL CHECK (country ~ '^[A-Z]{2}$'),
    created_at  timestamptz NOT NULL
);

CREATE TABLE products (
    product_id text PRIMARY KEY CHECK (product_id ~ '^P-[0-9]+$'),
    name       text NOT NULL UNIQUE,
    price      numeric(10, 2) NOT NULL CHECK (price > 0),
    final_sale boolean NOT NULL
);

CREATE TABLE orders (
    order_id      text PRIMARY KEY CHECK (order_id ~ '^O-[0-9]+$'),
    customer_id   text NOT NULL REFERENCES customers,
    status        text NOT NULL
                  CHECK (status IN ('placed', 'packed', 'shipped', 'delivered', 'cancelled')),
    placed_at     timestamptz NOT NULL,
    promised_on   date NOT NULL,
    delivered_at  timestamptz,
    ship_street   text NOT NULL CHECK (ship_street <> ''),
    ship_city     text NOT NULL CHECK (ship_city <> ''),
    ship_postcode text NOT NULL CHECK (ship_postcode <> ''),
    ship_country  text NOT NULL CHECK (ship_country ~ '^[A-Z]{2}$'),
    total         numeric(10, 2) NOT NULL CHECK (total > 0),
    CHECK ((status = 'delivered') = (delivered_at IS NOT NULL)),
    CHECK (delivered_at > placed_at)
);
CREATE INDEX orders_by_customer ON orders (customer_id);

CREATE TABLE order_lines (
    order_id   text NOT NULL REFERENCES orders,
    line_no    integer NOT NULL CHECK (line_no > 0),
    product_id text NOT NULL REFERENCES products,
    quantity   integer NOT NULL CHECK (quantity > 0),
    unit_price numeric(10, 2) NOT NULL CHECK (unit_price > 0),
    PRIMARY KEY (order_id, line_no)
);

CREATE TABLE approvals (
    approval_id text PRIMARY KEY CHECK (approval_id ~ '^A-[0-9]+$'),
    order_id    text NOT NULL REFERENCES orders,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    reason      text NOT NULL CHECK (reason IN ('damaged', 'wrong_item', 'late')),
    status      text NOT NULL CHECK (status IN ('granted', 'pending')),
    created_at  timestamptz NOT NULL
);

CREATE TABLE refunds (
    refund_id   text PRIMARY KEY CHECK (refund_id ~ '^R-[0-9]+$'),
    order_id    text NOT NULL REFERENCES orders,
    amount      numeric(10, 2) NOT NULL CHECK (amount > 0),
    reason      text NOT NULL CHECK (reason IN ('damaged', 'wrong_item', 'late')),
    approval_id text UNIQUE REFERENCES approvals,
    created_at  timestamptz NOT NULL
);
CREATE INDEX refunds_by_order ON refunds (order_id);

CREATE TABLE tickets (
    ticket_id   text PRIMARY KEY CHECK (ticket_id ~ '^T-[0-9]+$'),
    customer_id text NOT NULL REFERENCES customers,
    order_id    text REFERENCES orders,
    topic       text NOT NULL CHECK (topic IN
                ('packed_cancellation', 'address_review', 'account_security', 'other')),
    note        text NOT NULL CHECK (note <> ''),
    status      text NOT NULL CHECK (status IN ('open', 'closed')),
    created_at  timestamptz NOT NULL
);

-- What happened to an order, in order; every tool that changes an order writes here.
CREATE TABLE order_events (
    order_id text NOT NULL REFERENCES orders,
    seq      integer NOT NULL CHECK (seq > 0),
    kind     text NOT NULL CHECK (kind IN
             ('placed', 'packed', 'shipped', 'delivered', 'cancelled', 'refunded',
              'approval_requested', 'address_changed', 'ticket_opened')),
    detail   text NOT NULL,
    at       timestamptz NOT NULL,
    PRIMARY KEY (order_id, seq)
);
