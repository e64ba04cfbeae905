-- The same change as SQLite's schema-8.sql.

alter table run rename column owner to worker;
alter table run rename column holder to user_id;
alter table run rename column keep to thread_key;
alter table run rename column fruitless to failed_claims;
alter table memory rename column holder to namespace;
alter table definition rename column holder to user_id;
alter table definition_version rename column holder to user_id;
alter table definition_use rename column holder to user_id;
alter table notification rename column holder to user_id;
alter table api_key rename column holder to user_id;
alter table schedule rename column holder to user_id;
alter table hook rename column holder to user_id;
alter table block_card rename column holder to user_id;
alter table block_state rename column holder to user_id;

alter table wish rename to signal;

alter table started rename to idempotency_key;
alter table idempotency_key rename column holder to user_id;

drop index run_holder;
create index run_user on run (user_id, id);
drop index notification_holder;
create index notification_user on notification (user_id, id);
drop index started_run;
create index idempotency_key_run on idempotency_key (run);

update event set kind = 'progress', path = replace(path, '/told~', '/progress~') where kind = 'told';

alter table process rename to worker;
