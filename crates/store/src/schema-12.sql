-- The configuration under which a run was started: the name of the project, and the fingerprint of its settings. Both are
-- null for runs of older versions.

alter table run add column project text;
alter table run add column config text;
