-- Stored definitions: the current content, all versions, and which definitions use which.

create table definition (
    holder text not null,
    kind text not null,
    id text not null,
    version integer not null,
    hash text not null,
    format text,
    content text not null,
    origin text not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (holder, kind, id)
) without rowid;

create table definition_version (
    holder text not null,
    kind text not null,
    id text not null,
    version integer not null,
    hash text not null,
    content text not null,
    at integer not null,
    primary key (holder, kind, id, version)
) without rowid;

create table definition_use (
    holder text not null,
    id text not null,
    used_kind text not null,
    used_id text not null,
    primary key (used_kind, used_id, holder, id)
) without rowid;

insert into definition
select 'local', 'workflow', id, 1, '', 'steps',
    json_object('entry', 'workflow.json', 'files', json_object('workflow.json', definition)), 'function', created_at, created_at
from workflow;

drop table workflow;

alter table run add column workflow text;

create index run_workflow on run (coalesce(workflow, name), id);

create table notification (
    id integer primary key,
    key text not null unique,
    holder text not null,
    title text not null,
    body text not null,
    metadata text not null,
    at integer not null,
    read_at integer
);

create index notification_holder on notification (holder, id);
