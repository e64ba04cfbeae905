-- Keys expire and are rotated. The secret before the last rotation works until `old_until`.

alter table api_key add column expires_at integer;
alter table api_key add column last_used_at integer;
alter table api_key add column old_hash text;
alter table api_key add column old_until integer;
create index api_key_old_hash on api_key (old_hash) where old_hash is not null;

-- The audit log. `user_id` owns the object, `actor_user` is the user of the key. Entries are only added.

create table audit (
    number integer primary key,
    at integer not null,
    key_id text,
    key_name text,
    actor_user text,
    source text not null,
    action text not null,
    user_id text,
    object text not null,
    detail text,
    result text not null
);
create index audit_user on audit (user_id, number) where user_id is not null;

create trigger audit_changed before update on audit begin
    select raise(abort, 'the audit log is append-only');
end;
create trigger audit_deleted before delete on audit begin
    select raise(abort, 'the audit log is append-only');
end;

-- What users with a daily quota use. Days are counted from the Unix epoch, in UTC.

create table daily_usage (
    user_id text not null,
    day integer not null,
    sandbox_ms integer not null,
    tokens integer not null,
    micro_usd integer not null,
    primary key (user_id, day)
) without rowid;

-- The runs that count for the quota of concurrent runs.
create index run_active on run (user_id) where status in ('queued', 'running') and parent is null;
