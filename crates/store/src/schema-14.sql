-- A random name of this database, by which an engine outside tells it from others.

create table identity (id text not null);

insert into identity values (lower(hex(randomblob(6))));
