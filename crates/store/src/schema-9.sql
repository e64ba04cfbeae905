-- Commands to runs, which replace signals: each has an id, a sender and an outcome. The signals that were pending become
-- commands.

create table command (
    number integer primary key,
    run text not null,
    id text not null,
    sender text not null,
    action text not null,
    sent_at integer not null,
    outcome text,
    code text,
    reason text,
    decided_at integer,
    unique (run, id)
);
create index command_pending on command (run) where outcome is null;

alter table run add column pending_commands integer not null default 0;

-- Runs of each worker, and runs that a worker must drive and none does.
drop index run_running;
create index run_worker on run (worker, id) where worker is not null;
create index run_unclaimed on run (id) where worker is null and (status = 'running' or pending_commands > 0);

insert into command (run, id, sender, action, sent_at)
    select signal.run, 'signal-' || signal.id,
        coalesce(json_extract(body, '$.cancel.by'), json_extract(body, '$.answer.by'), json_extract(body, '$.resolve.by'), ''),
        body, run.created_at
    from signal join run on run.id = signal.run where run.finished_at is null order by signal.id;
update run set pending_commands = (select count(*) from command where command.run = run.id)
    where id in (select run from command);
drop table signal;
