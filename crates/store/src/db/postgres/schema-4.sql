-- The step that started a child run.
alter table run add column parent text collate "C";
alter table run add column parent_path text collate "C";
create index run_parent on run (parent, parent_path) where parent is not null;
