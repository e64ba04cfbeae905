-- The same change as SQLite's schema-13.sql.

alter table run add column forked_from text collate "C";

create index run_forked_from on run (forked_from) where forked_from is not null;
