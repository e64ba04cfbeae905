-- The same tables as in SQLite. Texts compare byte by byte, as there.

create table run (
    number bigint generated always as identity primary key,
    id text collate "C" not null unique,
    epoch bigint not null,
    owner text collate "C",
    created_at bigint not null,
    finished_at bigint,
    format text collate "C" not null,
    name text collate "C" not null,
    status text collate "C" not null,
    holder text collate "C" not null,
    bundle text collate "C" not null,
    workflow text collate "C",
    keep text collate "C",
    fruitless bigint not null default 0
);

create index run_holder on run (holder, id);

create index run_workflow on run (coalesce(workflow, name), id);

create index run_turn on run (holder, keep) where keep is not null and finished_at is null;

create index run_running on run (owner, id) where status = 'running';

-- id = run.number * 2^32 + seq: one index tree, in which the events of a run are adjacent.
create table event (
    id bigint primary key,
    at bigint not null,
    path text collate "C" not null,
    attempt bigint not null,
    kind text collate "C" not null,
    data text collate "C",
    output text collate "C"
);

create table blob (
    hash text collate "C" primary key,
    content text collate "C" not null
);

create table bundle (
    hash text collate "C" primary key,
    content text collate "C" not null
);

create table memory (
    holder text collate "C" not null,
    key text collate "C" not null,
    value text collate "C" not null,
    primary key (holder, key)
);

create table wish (
    id bigint generated always as identity primary key,
    run text collate "C" not null,
    body text collate "C" not null
);

create table definition (
    holder text collate "C" not null,
    kind text collate "C" not null,
    id text collate "C" not null,
    version bigint not null,
    hash text collate "C" not null,
    format text collate "C",
    content text collate "C" not null,
    origin text collate "C" not null,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (holder, kind, id)
);

create table definition_version (
    holder text collate "C" not null,
    kind text collate "C" not null,
    id text collate "C" not null,
    version bigint not null,
    hash text collate "C" not null,
    content text collate "C" not null,
    at bigint not null,
    primary key (holder, kind, id, version)
);

create table definition_use (
    holder text collate "C" not null,
    id text collate "C" not null,
    used_kind text collate "C" not null,
    used_id text collate "C" not null,
    primary key (used_kind, used_id, holder, id)
);

create table notification (
    id bigint generated always as identity primary key,
    key text collate "C" not null unique,
    holder text collate "C" not null,
    title text collate "C" not null,
    body text collate "C" not null,
    metadata text collate "C" not null,
    at bigint not null,
    read_at bigint
);

create index notification_holder on notification (holder, id);

create table api_key (
    id text collate "C" primary key,
    hash text collate "C" not null unique,
    name text collate "C" not null,
    scopes text collate "C" not null,
    holder text collate "C",
    created_at bigint not null,
    revoked_at bigint
);

create table started (
    holder text collate "C" not null,
    key text collate "C" not null,
    request text collate "C" not null,
    run text collate "C" not null,
    at bigint not null,
    primary key (holder, key)
);

create table schedule (
    id text collate "C" not null,
    holder text collate "C" not null,
    workflow text collate "C" not null,
    cron text collate "C" not null,
    timezone text collate "C" not null,
    inputs text collate "C" not null,
    catches_up bigint not null,
    created_at bigint not null,
    next_at bigint not null,
    last_at bigint,
    last_run text collate "C",
    is_pending bigint not null default 0,
    primary key (holder, id)
);

create index schedule_next on schedule (next_at);

create table hook (
    id text collate "C" primary key,
    holder text collate "C" not null,
    workflow text collate "C" not null,
    secret_hash text collate "C",
    secret_name text collate "C",
    created_at bigint not null
);

-- Indexes that find the data to delete together with old runs.
create index event_output on event (output) where output is not null;
create index run_bundle on run (bundle);
create index run_finished on run (status, finished_at) where finished_at is not null;
create index started_run on started (run);

create index run_unfinished on run (created_at) where finished_at is null;

-- Processes that drive runs. Each renews its lease; a process is dead once expires_at has passed. commit_number is the
-- number of its last commit, which tells a process whether an unacknowledged commit happened.
create table process (
    name text collate "C" primary key,
    commit_number bigint not null,
    expires_at timestamptz not null
);

-- Search index of blocks: their words, and embeddings of their texts. Equal texts share an embedding.
create table block_card (
    holder text collate "C" not null,
    id text collate "C" not null,
    name text collate "C" not null,
    purpose text collate "C" not null,
    tags text collate "C" not null,
    hash text collate "C" not null,
    content text collate "C" not null,
    words tsvector not null generated always as (
        setweight(to_tsvector('english', name), 'A') || setweight(to_tsvector('english', purpose), 'B')
        || setweight(to_tsvector('english', tags), 'C')
    ) stored,
    primary key (holder, id)
);

create index block_card_hash on block_card (hash);
create index block_card_words on block_card using gin (words);

create table embedding (
    model text collate "C" not null,
    hash text collate "C" not null,
    vector bytea not null,
    primary key (model, hash)
);

-- Counts changes to a user's blocks, so that a process can detect that its cache is out of date.
create table block_state (
    holder text collate "C" primary key,
    version bigint not null
);
