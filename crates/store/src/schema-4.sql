-- Recovery of runs of dead processes: how often a run was claimed since its last progress, and an index of the runs
-- with the status running.

alter table run add column fruitless integer not null default 0;

create index run_running on run (owner, id) where status = 'running';
