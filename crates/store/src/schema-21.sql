-- Recovery looks for runs without a worker every few seconds. A queued run needs one, too.

drop index run_unclaimed;
create index run_due on run (id) where worker is null and (status in ('queued', 'running') or pending_commands > 0);
