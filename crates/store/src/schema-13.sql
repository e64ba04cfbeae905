-- The run that a run was forked from; null for a run that was started.

alter table run add column forked_from text;

create index run_forked_from on run (forked_from) where forked_from is not null;
