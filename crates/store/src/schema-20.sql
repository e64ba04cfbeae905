-- The starts of the last minute are counted for the quota of starts. The id of a run may be older: an idempotency key reserves it.

create index run_started on run (user_id, created_at) where parent is null;
