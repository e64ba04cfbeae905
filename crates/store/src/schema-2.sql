-- Server tables: who may call it (API keys), and which calls it has accepted (idempotency keys).

create table api_key (
    id text primary key,
    hash text not null unique,
    name text not null,
    scopes text not null,
    holder text,
    created_at integer not null,
    revoked_at integer
) without rowid;

create table started (
    holder text not null,
    key text not null,
    request text not null,
    run text not null,
    at integer not null,
    primary key (holder, key)
) without rowid;

create index run_holder on run (holder, id);
