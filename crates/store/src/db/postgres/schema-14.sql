-- The same change as SQLite's schema-19.sql.

create index command_sent on command (sent_at);
