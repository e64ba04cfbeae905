-- What starts runs by itself: times, and calls from elsewhere.

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
