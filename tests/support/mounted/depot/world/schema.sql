CREATE TABLE parcels (parcel_id text PRIMARY KEY, weight integer);
