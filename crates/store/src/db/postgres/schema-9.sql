-- The same change as SQLite's schema-14.sql.

create table identity (id text not null);

insert into identity values (right(gen_random_uuid()::text, 12));
