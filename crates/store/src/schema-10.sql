-- Checksums of rows, which every read verifies. `status_seq` is the position of the last event when the status was set:
-- the journal of the run has at least this many events. The migration computes them for the rows that exist
-- (migrate_checksums.rs).

alter table event add column checksum integer not null default 0;
alter table memory add column checksum integer not null default 0;
alter table run add column checksum integer not null default 0;
alter table run add column status_checksum integer not null default 0;
alter table run add column status_seq integer not null default 0;

-- The step that started a child run.
alter table run add column parent text;
alter table run add column parent_path text;
create index run_parent on run (parent, parent_path) where parent is not null;
