-- The step that started a child run.
alter table run add column parent text;
alter table run add column parent_path text;
create index run_parent on run (parent, parent_path) where parent is not null;
