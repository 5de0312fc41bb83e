INSERT INTO parcels VALUES ('P-1', NULL), ('P-2', NULL);
