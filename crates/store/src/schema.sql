-- The journal (event) is the only source of truth: run.status, memory and every other column that an event implies can
-- be rebuilt.

create table run (
    number integer primary key,
    id text not null unique,
    epoch integer not null,
    owner text,
    created_at integer not null,
    finished_at integer,
    format text not null,
    name text not null,
    status text not null,
    holder text not null,
    bundle text not null
);

-- id = run.number * 2^32 + seq: one index tree, in which the events of a run are adjacent, without a second index.
create table event (
    id integer primary key,
    at integer not null,
    path text not null,
    attempt integer not null,
    kind text not null,
    data text,
    output text
);

create table blob (
    hash text primary key,
    content text not null
);

create table bundle (
    hash text primary key,
    content text not null
) without rowid;

create table memory (
    holder text not null,
    key text not null,
    value text not null,
    primary key (holder, key)
) without rowid;

create table wish (
    id integer primary key,
    run text not null,
    body text not null
);

create table workflow (
    id text primary key,
    created_at integer not null,
    definition text not null
) without rowid;
