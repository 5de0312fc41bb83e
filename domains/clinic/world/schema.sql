-- Carrick Clinics, outpatients in Newry and Dundalk. Ids are two letters for the kind of record and a number.

CREATE TABLE clinic_sites (
    site     text PRIMARY KEY CHECK (site IN ('NWY', 'DLK')),
    town     text NOT NULL UNIQUE,
    currency text NOT NULL CHECK (currency = CASE site WHEN 'NWY' THEN 'GBP' ELSE 'EUR' END)
);

CREATE TABLE clinicians (
    clinician_id text PRIMARY KEY CHECK (clinician_id ~ '^CN-[0-9]+$'),
    name         text NOT NULL UNIQUE,
    specialty    text NOT NULL CHECK (specialty IN
                 ('dermatology', 'cardiology', 'orthopaedics', 'ent', 'physiotherapy', 'dietetics')),
    grade        text NOT NULL CHECK (grade IN ('consultant', 'registrar', 'therapist')),
    site         text NOT NULL REFERENCES clinic_sites
);

CREATE TABLE visit_types (
    visit_type text PRIMARY KEY,
    specialty  text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('first', 'review', 'test', 'session')),
    minutes    integer NOT NULL CHECK (minutes BETWEEN 10 AND 60),
    price_gbp  numeric(8, 2) NOT NULL CHECK (price_gbp > 0),
    price_eur  numeric(8, 2) NOT NULL CHECK (price_eur > 0)
);

-- asks_for: visit types that the insurer pays for only with an authorisation.
CREATE TABLE insurers (
    insurer_id text PRIMARY KEY CHECK (insurer_id ~ '^IN-[0-9]+$'),
    name       text NOT NULL UNIQUE,
    asks_for   text[] NOT NULL
);

CREATE TABLE patients (
    patient_id  text PRIMARY KEY CHECK (patient_id ~ '^PT-[0-9]+$'),
    name        text NOT NULL,
    born_on     date NOT NULL CHECK (born_on < '2026-10-05'),
    email       text NOT NULL UNIQUE CHECK (email = lower(email)),
    phone       text NOT NULL CHECK (phone <> ''),
    address     text NOT NULL CHECK (address <> ''),
    channel     text NOT NULL CHECK (channel IN ('sms', 'email', 'call')),
    insurer_id  text REFERENCES insurers,
    cover_until date,
    note        text NOT NULL,
    CHECK ((insurer_id IS NULL) = (cover_until IS NULL))
);

-- Who may speak for a patient, how far and how long.
CREATE TABLE patient_proxies (
    proxy_id   text PRIMARY KEY CHECK (proxy_id ~ '^PX-[0-9]+$'),
    patient_id text NOT NULL REFERENCES patients,
    name       text NOT NULL CHECK (name <> ''),
    email      text NOT NULL CHECK (email = lower(email)),
    relation   text NOT NULL CHECK (relation IN ('parent', 'child', 'partner', 'carer', 'friend')),
    scope      text NOT NULL CHECK (scope IN ('visits', 'everything')),
    until      date,
    ended      boolean NOT NULL
);
CREATE UNIQUE INDEX a_proxy_once ON patient_proxies (patient_id, email) WHERE NOT ended;

CREATE TABLE referral_letters (
    referral_id text PRIMARY KEY CHECK (referral_id ~ '^RL-[0-9]+$'),
    patient_id  text NOT NULL REFERENCES patients,
    specialty   text NOT NULL,
    priority    text NOT NULL CHECK (priority IN ('routine', 'urgent')),
    visits      integer NOT NULL CHECK (visits BETWEEN 1 AND 12),
    received_on date NOT NULL,
    valid_until date NOT NULL CHECK (valid_until > received_on),
    status      text NOT NULL CHECK (status IN ('open', 'withdrawn')),
    summary     text NOT NULL
);
CREATE INDEX letters_by_patient ON referral_letters (patient_id);

CREATE TABLE cover_authorisations (
    authorisation_id text PRIMARY KEY CHECK (authorisation_id ~ '^AU-[0-9]+$'),
    patient_id       text NOT NULL REFERENCES patients,
    visit_type       text NOT NULL REFERENCES visit_types,
    visits           integer NOT NULL CHECK (visits BETWEEN 1 AND 12),
    valid_from       date NOT NULL,
    valid_until      date NOT NULL CHECK (valid_until >= valid_from),
    status           text NOT NULL CHECK (status IN ('asked', 'granted', 'declined'))
);

CREATE TABLE clinic_slots (
    slot_id      text PRIMARY KEY CHECK (slot_id ~ '^SL-[0-9]+$'),
    clinician_id text NOT NULL REFERENCES clinicians,
    day          date NOT NULL CHECK (extract(isodow FROM day) < 6),
    starts       text NOT NULL CHECK (starts ~ '^(0[89]|1[0-7]):[0-5]0$'),
    minutes      integer NOT NULL CHECK (minutes BETWEEN 10 AND 60),
    held_for     text CHECK (held_for = 'urgent'),
    UNIQUE (clinician_id, day, starts)
);

-- review_weeks: after a visit, the clinician's wish for the time until the review.
CREATE TABLE appointments (
    appointment_id   text PRIMARY KEY CHECK (appointment_id ~ '^AP-[0-9]+$'),
    patient_id       text NOT NULL REFERENCES patients,
    visit_type       text NOT NULL REFERENCES visit_types,
    slot_id          text NOT NULL REFERENCES clinic_slots,
    payer            text NOT NULL CHECK (payer IN ('self', 'insurer')),
    referral_id      text REFERENCES referral_letters,
    authorisation_id text REFERENCES cover_authorisations,
    moves            integer NOT NULL CHECK (moves >= 0),
    status           text NOT NULL CHECK (status IN ('booked', 'completed', 'no_show', 'cancelled',
                     'cancelled_late', 'cancelled_by_clinic')),
    review_weeks     integer CHECK (review_weeks BETWEEN 1 AND 52),
    CHECK (authorisation_id IS NULL OR payer = 'insurer')
);
CREATE INDEX appointments_by_patient ON appointments (patient_id);
CREATE UNIQUE INDEX one_visit_in_a_slot ON appointments (slot_id)
    WHERE status IN ('booked', 'completed', 'no_show');

-- Visits as the desk reads them.
CREATE VIEW visits AS
SELECT appointment_id, patient_id, visit_type, site, currency, clinicians.name AS clinician, day, starts, payer,
       referral_id, authorisation_id, moves, appointments.status, review_weeks
FROM appointments JOIN clinic_slots USING (slot_id) JOIN clinicians USING (clinician_id) JOIN clinic_sites USING (site);

CREATE TABLE interpreter_bookings (
    appointment_id text PRIMARY KEY REFERENCES appointments,
    language       text NOT NULL CHECK (language IN
                   ('polish', 'lithuanian', 'ukrainian', 'arabic', 'portuguese', 'romanian')),
    day            date NOT NULL
);

CREATE TABLE waiting_entries (
    waiting_id  text PRIMARY KEY CHECK (waiting_id ~ '^WL-[0-9]+$'),
    patient_id  text NOT NULL REFERENCES patients,
    visit_type  text NOT NULL REFERENCES visit_types,
    site        text NOT NULL REFERENCES clinic_sites,
    priority    text NOT NULL CHECK (priority IN ('routine', 'urgent')),
    referral_id text NOT NULL REFERENCES referral_letters,
    since       date NOT NULL,
    status      text NOT NULL CHECK (status IN ('waiting', 'served', 'left'))
);
CREATE INDEX waiting_by_type ON waiting_entries (visit_type, site);

CREATE TABLE visit_fees (
    fee_id         text PRIMARY KEY CHECK (fee_id ~ '^FE-[0-9]+$'),
    appointment_id text NOT NULL REFERENCES appointments,
    kind           text NOT NULL CHECK (kind IN ('late_cancel', 'no_show')),
    currency       text NOT NULL CHECK (currency IN ('GBP', 'EUR')),
    amount         numeric(8, 2) NOT NULL CHECK (amount > 0),
    charged_on     date NOT NULL,
    status         text NOT NULL CHECK (status IN ('open', 'paid', 'collection', 'waived'))
);
CREATE INDEX fees_by_appointment ON visit_fees (appointment_id);

CREATE TABLE lead_decisions (
    decision_id text PRIMARY KEY CHECK (decision_id ~ '^LD-[0-9]+$'),
    matter      text NOT NULL CHECK (matter IN ('waiver', 'further_move', 'series')),
    subject     text NOT NULL,
    amount      numeric(8, 2) NOT NULL CHECK (amount > 0),
    answer      text NOT NULL CHECK (answer IN ('approved', 'waiting')),
    asked_at    timestamptz NOT NULL
);

-- What was taken off a fee; of a paid one it is money that goes back.
CREATE TABLE fee_waivers (
    waiver_id   text PRIMARY KEY CHECK (waiver_id ~ '^WV-[0-9]+$'),
    fee_id      text NOT NULL REFERENCES visit_fees,
    amount      numeric(8, 2) NOT NULL CHECK (amount > 0),
    reason      text NOT NULL CHECK (reason IN
                ('clinic_fault', 'hospital', 'duplicate', 'wrong_amount', 'bereavement', 'goodwill')),
    pays_back   boolean NOT NULL,
    decision_id text UNIQUE REFERENCES lead_decisions,
    waived_at   timestamptz NOT NULL
);

CREATE TABLE visit_reminders (
    appointment_id text PRIMARY KEY REFERENCES appointments,
    day            date NOT NULL,
    channel        text NOT NULL CHECK (channel IN ('sms', 'email', 'call')),
    status         text NOT NULL CHECK (status IN ('planned', 'sent'))
);

CREATE TABLE patient_messages (
    message_id text PRIMARY KEY CHECK (message_id ~ '^MS-[0-9]+$'),
    patient_id text NOT NULL REFERENCES patients,
    template   text NOT NULL CHECK (template IN
               ('booked', 'moved', 'cancelled', 'fee_raised', 'fee_waived', 'waiting_joined', 'waiting_left',
                'authorisation_asked', 'payer_changed', 'interpreter_set', 'contact_changed', 'proxy_changed')),
    subject    text NOT NULL,
    sent_at    timestamptz NOT NULL
);

CREATE TABLE audit_entries (
    audit_id text PRIMARY KEY CHECK (audit_id ~ '^AD-[0-9]+$'),
    subject  text NOT NULL,
    action   text NOT NULL CHECK (action IN
             ('booked', 'moved', 'cancelled', 'fee_raised', 'fee_waived', 'waiting_joined', 'waiting_left',
              'authorisation_asked', 'payer_changed', 'interpreter_set', 'contact_changed', 'proxy_changed',
              'clinic_late', 'clinic_cancelled', 'hospital_stay', 'remark')),
    detail   text NOT NULL CHECK (detail <> ''),
    at       timestamptz NOT NULL
);
CREATE INDEX audit_by_subject ON audit_entries (subject);

CREATE TABLE escalated_cases (
    case_id    text PRIMARY KEY CHECK (case_id ~ '^EC-[0-9]+$'),
    patient_id text NOT NULL REFERENCES patients,
    desk       text NOT NULL CHECK (desk IN
               ('duty_nurse', 'privacy', 'records', 'access', 'billing', 'triage', 'other')),
    subject    text NOT NULL,
    note       text NOT NULL CHECK (note <> ''),
    created_at timestamptz NOT NULL
);
