-- Automatic starts: schedules and webhooks.

create table schedule (
    id text not null,
    holder text not null,
    workflow text not null,
    cron text not null,
    timezone text not null,
    inputs text not null,
    catches_up integer not null,
    created_at integer not null,
    next_at integer not null,
    last_at integer,
    last_run text,
    is_pending integer not null default 0,
    primary key (holder, id)
) without rowid;

create index schedule_next on schedule (next_at);

create table hook (
    id text primary key,
    holder text not null,
    workflow text not null,
    secret_hash text,
    secret_name text,
    created_at integer not null
) without rowid;

-- Indexes that find the data to delete together with old runs.
create index event_output on event (output) where output is not null;
create index run_bundle on run (bundle);
create index run_finished on run (status, finished_at) where finished_at is not null;
create index started_run on started (run);

create index run_unfinished on run (created_at) where finished_at is null;
