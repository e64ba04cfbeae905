-- Why the last due time of a schedule started no run; null if it did.

alter table schedule add column last_error text;
