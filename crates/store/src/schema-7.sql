-- Search index of blocks: their words, and embeddings of their texts. Equal texts share an embedding.

create table block_card (
    number integer primary key,
    holder text not null,
    id text not null,
    name text not null,
    purpose text not null,
    tags text not null,
    hash text not null,
    content text not null,
    unique (holder, id)
);

create index block_card_hash on block_card (hash);

create table embedding (
    model text not null,
    hash text not null,
    vector blob not null,
    primary key (model, hash)
) without rowid;

-- Counts changes to a user's blocks, so that a process can detect that its cache is out of date.
create table block_state (
    holder text primary key,
    version integer not null
) without rowid;

create virtual table block_words using fts5 (
    name, purpose, tags, content = 'block_card', content_rowid = 'number', tokenize = 'porter unicode61'
);

insert into block_words (block_words, rank) values ('rank', 'bm25(4.0, 2.0, 1.0)');

create trigger block_card_new after insert on block_card begin
    insert into block_words (rowid, name, purpose, tags) values (new.number, new.name, new.purpose, new.tags);
end;

create trigger block_card_gone after delete on block_card begin
    insert into block_words (block_words, rowid, name, purpose, tags)
    values ('delete', old.number, old.name, old.purpose, old.tags);
end;

create trigger block_card_changed after update on block_card begin
    insert into block_words (block_words, rowid, name, purpose, tags)
    values ('delete', old.number, old.name, old.purpose, old.tags);
    insert into block_words (rowid, name, purpose, tags) values (new.number, new.name, new.purpose, new.tags);
end;
