-- The same change as SQLite's schema-18.sql. The indexes have the key, so that they answer the query by themselves.

alter table schedule add column skipped bigint not null default 0;

drop index schedule_next;
create index schedule_due on schedule (next_at, user_id, id) where is_paused = 0;
create index schedule_pending on schedule (next_at, user_id, id) where is_pending = 1;
