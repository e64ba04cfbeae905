-- The same change as SQLite's schema-12.sql.

alter table run add column project text collate "C";
alter table run add column config text collate "C";
