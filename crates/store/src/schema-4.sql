-- What a server needs that takes up the runs of processes that have gone: how often a run was taken up since it last got
-- on, and a quick way to those that say they are running.

alter table run add column fruitless integer not null default 0;

create index run_running on run (owner, id) where status = 'running';
