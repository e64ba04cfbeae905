-- The same change as SQLite's schema-20.sql.

create index run_started on run (user_id, created_at) where parent is null;
