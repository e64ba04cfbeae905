-- The same change as SQLite's schema-16.sql.

create table question_expiry (
    run text not null,
    path text not null,
    expires_at bigint not null,
    primary key (expires_at, run, path)
);

create index question_expiry_run on question_expiry (run, path);

create index run_thread on run (user_id, thread_key, number) where thread_key is not null;

-- Whether a schedule starts a run while its last one has not ended, and whether it is paused.
alter table schedule add column allows_overlap bigint not null default 1;
alter table schedule add column is_paused bigint not null default 0;
