-- Due schedules are found without reading their inputs, and count the times that passed without a run.

alter table schedule add column skipped integer not null default 0;

drop index schedule_next;
create index schedule_due on schedule (next_at) where is_paused = 0;
create index schedule_pending on schedule (next_at) where is_pending = 1;
