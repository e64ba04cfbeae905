-- What started a run: the interface, and the id of the schedule or webhook.

alter table run add column trigger_kind text;
alter table run add column trigger_id text;

-- The outermost run around a child run, and the number of the child run in its tree.
alter table run add column root text;
alter table run add column tree_number integer;

create index run_tree on run (root, tree_number) where root is not null;
