-- The retries of the last minute are counted for the quota of starts.

create index command_sent on command (sent_at);
