-- The same change as SQLite's schema-11.sql.

alter table api_key add column expires_at bigint;
alter table api_key add column last_used_at bigint;
alter table api_key add column old_hash text collate "C";
alter table api_key add column old_until bigint;
create index api_key_old_hash on api_key (old_hash) where old_hash is not null;
