-- The same change as SQLite's schema-15.sql.

alter table schedule add column last_error text;
