-- The conversation that a run is a turn of.

alter table run add column keep text;

update run set keep = (select json_extract(data, '$.keep') from event where event.id = run.number * 4294967296 + 1)
where finished_at is null;

create index run_turn on run (holder, keep) where keep is not null and finished_at is null;
