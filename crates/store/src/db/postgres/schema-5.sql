-- The same change as SQLite's schema-11.sql.

alter table api_key add column expires_at bigint;
alter table api_key add column last_used_at bigint;
alter table api_key add column old_hash text collate "C";
alter table api_key add column old_until bigint;
create index api_key_old_hash on api_key (old_hash) where old_hash is not null;

-- The audit log. `user_id` owns the object, `actor_user` is the user of the key. Entries are only added.

create table audit (
    number bigint generated always as identity primary key,
    at bigint not null,
    key_id text collate "C",
    key_name text collate "C",
    actor_user text collate "C",
    source text collate "C" not null,
    action text collate "C" not null,
    user_id text collate "C",
    object text collate "C" not null,
    detail text collate "C",
    result text collate "C" not null
);
create index audit_user on audit (user_id, number) where user_id is not null;

create function refuse_audit_change() returns trigger language plpgsql as
    $$ begin raise exception 'the audit log is append-only'; end $$;
create trigger audit_changed before update or delete on audit for each row execute function refuse_audit_change();

-- What users with a daily quota use. Days are counted from the Unix epoch, in UTC.

create table daily_usage (
    user_id text collate "C" not null,
    day bigint not null,
    sandbox_ms bigint not null,
    tokens bigint not null,
    micro_usd bigint not null,
    primary key (user_id, day)
);

-- The runs that count for the quota of concurrent runs.
create index run_active on run (user_id) where status in ('queued', 'running') and parent is null;
