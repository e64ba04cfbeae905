-- Keys expire and are rotated. The secret before the last rotation works until `old_until`.

alter table api_key add column expires_at integer;
alter table api_key add column last_used_at integer;
alter table api_key add column old_hash text;
alter table api_key add column old_until integer;
create index api_key_old_hash on api_key (old_hash) where old_hash is not null;
