-- The same change as SQLite's schema-17.sql.

alter table run add column trigger_kind text;
alter table run add column trigger_id text;

-- The outermost run around a child run, and the number of the child run in its tree.
alter table run add column root text;
alter table run add column tree_number bigint;

create index run_tree on run (root, tree_number) where root is not null;
