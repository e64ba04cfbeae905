-- Commands to runs, which replace signals: each has an id, a sender and an outcome. The signals that were pending become
-- commands.

create table command (
    number bigint generated always as identity primary key,
    run text collate "C" not null,
    id text collate "C" not null,
    sender text collate "C" not null,
    action text collate "C" not null,
    sent_at bigint not null,
    outcome text collate "C",
    code text collate "C",
    reason text collate "C",
    decided_at bigint,
    unique (run, id)
);
create index command_pending on command (run) where outcome is null;

alter table run add column pending_commands bigint not null default 0;

-- Runs of each worker, and runs that a worker must drive and none does.
drop index run_running;
create index run_worker on run (worker, id) where worker is not null;
create index run_unclaimed on run (id) where worker is null and (status = 'running' or pending_commands > 0);

insert into command (run, id, sender, action, sent_at)
    select signal.run, 'signal-' || signal.id,
        coalesce(body::json #>> '{cancel,by}', body::json #>> '{answer,by}', body::json #>> '{resolve,by}', ''),
        body, run.created_at
    from signal join run on run.id = signal.run where run.finished_at is null order by signal.id;
update run set pending_commands = (select count(*) from command where command.run = run.id)
    where id in (select run from command);
drop table signal;
