-- When questions with a time limit expire: a run that waits is continued then. And the turns of a conversation in order.

create table question_expiry (
    run text not null,
    path text not null,
    expires_at integer not null,
    primary key (expires_at, run, path)
) without rowid;

create index question_expiry_run on question_expiry (run, path);

create index run_thread on run (user_id, thread_key, number) where thread_key is not null;

-- Whether a schedule starts a run while its last one has not ended, and whether it is paused.
alter table schedule add column allows_overlap integer not null default 1;
alter table schedule add column is_paused integer not null default 0;
