-- The same change as SQLite's schema-21.sql.

drop index run_unclaimed;
create index run_due on run (id) where worker is null and (status in ('queued', 'running') or pending_commands > 0);
