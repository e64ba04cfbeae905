-- Checksums of rows, which every read verifies. `status_seq` is the position of the last event when the status was set:
-- the journal of the run has at least this many events. The migration computes them for the rows that exist
-- (migrate_checksums.rs).

alter table event add column checksum bigint not null default 0;
alter table memory add column checksum bigint not null default 0;
alter table run add column checksum bigint not null default 0;
alter table run add column status_checksum bigint not null default 0;
alter table run add column status_seq bigint not null default 0;

-- The step that started a child run.
alter table run add column parent text collate "C";
alter table run add column parent_path text collate "C";
create index run_parent on run (parent, parent_path) where parent is not null;
