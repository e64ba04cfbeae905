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
