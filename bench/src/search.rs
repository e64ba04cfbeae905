//! Block search: how often the right block is found and a wrong one taken, on the data sets in `data/`, which list
//! requests and the blocks that satisfy them; and how long a search takes among ten thousand blocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use flowloom_core::Value;
use flowloom_core::block::{BlockCard, Thresholds, compare_block};
use flowloom_core::render;
use flowloom_models::embed::Embed;
use flowloom_models::{ModelSettings, Models, ProcessEnvironment};
use flowloom_models_local::LocalEngine;
use flowloom_store::{
    Actor, BlockQuery, Database, DefinitionChange, DefinitionKey, DefinitionKind, Durability, FoundBlock,
    NewDefinition, Origin, SHARED_USER, Store, StoreSettings,
};

use crate::BenchError;
use crate::measure::{ReportRow, SampleStats};

const BLOCK_LINES: &str = include_str!("../data/blocks.txt");
const QUERY_LINES: &str = include_str!("../data/queries.txt");
/// Number of results that are considered.
const MAX_RESULTS: usize = 5;
/// Number of blocks of the large registry, and the width of their vectors.
const REGISTRY_BLOCKS: usize = 10_000;
const VECTOR_DIMENSIONS: usize = 384;
/// Name of the model of random vectors.
const RANDOM_MODEL: &str = "bench:random";

/// A row of the data set of requests.
struct SearchCase {
    would_do: Vec<&'static str>,
    card: BlockCard,
}

/// Quality with the local model, and duration on both databases.
pub(crate) async fn measure_search() -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    let models = Models::new(ModelSettings::default(), Arc::new(ProcessEnvironment))
        .with_local(Arc::new(LocalEngine::default()));
    match models.open_embedder(None) {
        Ok(embedder) => rows.append(&mut measure_quality(&*embedder).await?),
        Err(error) => rows.push(ReportRow::new("search", &format!("not measured: {error}"), 0)),
    }
    let folder = tempfile::tempdir()?;
    let settings = StoreSettings::for_folder(folder.path(), Durability::Off);
    rows.push(measure_times("SQLite", &settings).await?);
    if let Some(postgres) = test_postgres::TestDatabase::create_database() {
        let database = Some(Database::parse(&postgres.url)?);
        rows.push(measure_times("Postgres", &StoreSettings { database, ..settings }).await?);
    }
    Ok(rows)
}

async fn measure_quality(embedder: &dyn Embed) -> Result<Vec<ReportRow>, BenchError> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path(), Durability::Off)?;
    let blocks: BTreeMap<&str, BlockCard> =
        parse_lines(BLOCK_LINES).map(|fields| (fields[0], BlockCard::from_definition(&parse_block(&fields)))).collect();
    let puts = parse_lines(BLOCK_LINES).map(|fields| put_block(fields[0], &parse_block(&fields))).collect();
    store.change_definitions(puts, &Actor::command_line(), 1).await?;
    let missing = store.list_unembedded(embedder.model_name(), REGISTRY_BLOCKS)?;
    let texts: Vec<String> = missing.iter().map(|one| one.text.clone()).collect();
    let vectors = embedder.embed_texts(&texts).await?;
    let vectors = missing.into_iter().zip(vectors).map(|(one, vector)| (one.hash, vector.to_vec())).collect();
    store.store_embeddings(embedder.model_name(), vectors).await?;

    let mut tally = SearchTally::default();
    for wanted in load_cases() {
        let vector = embedder.embed_texts(&[wanted.card.embedding_text()]).await?.remove(0);
        let (words, vector) = (wanted.card.search_text(), Some((embedder.model_name(), &*vector)));
        let found = store.search_blocks(BlockQuery { user: "ann", words: &words, vector, limit: MAX_RESULTS })?;
        let is_taken = |found: &&FoundBlock| {
            compare_block(&wanted.card, &blocks[found.id.as_str()], found.similarity, &Thresholds::default())
                .is_usable()
        };
        tally.count_case(&wanted, &found, found.iter().find(is_taken));
    }
    Ok(tally.to_rows())
}

/// Counts of outcomes.
#[derive(Default)]
struct SearchTally {
    /// Requests that a block satisfies.
    fitted: usize,
    first: usize,
    among: usize,
    right: usize,
    wrong: usize,
    /// Requests that no block satisfies.
    unfitted: usize,
    taken: usize,
}

impl SearchTally {
    fn count_case(&mut self, wanted: &SearchCase, found: &[FoundBlock], taken: Option<&FoundBlock>) {
        if wanted.would_do.is_empty() {
            self.unfitted += 1;
            self.taken += usize::from(taken.is_some());
            return;
        }
        let would_do = |found: &FoundBlock| wanted.would_do.contains(&found.id.as_str());
        self.fitted += 1;
        self.first += usize::from(found.first().is_some_and(would_do));
        self.among += usize::from(found.iter().any(would_do));
        self.right += usize::from(taken.is_some_and(would_do));
        self.wrong += usize::from(taken.is_some_and(|taken| !would_do(taken)));
    }

    fn to_rows(&self) -> Vec<ReportRow> {
        let row = |what: &str, n: usize| ReportRow::new("search", what, n);
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let (fitted, unfitted) = (self.fitted, self.unfitted);
        vec![
            row("recall@1", fitted).with_value(share(self.first, fitted)),
            row("recall@5", fitted).with_minimum(share(self.among, fitted), 0.95, ""),
            row("a block taken where none fits", unfitted).with_maximum(share(self.taken, unfitted), 0.05, ""),
            row("a wrong block taken where one fits", fitted).with_maximum(share(self.wrong, fitted), 0.05, ""),
            row("the right block taken where one fits", fitted).with_value(share(self.right, fitted)),
        ]
    }
}

async fn measure_times(database: &str, settings: &StoreSettings) -> Result<ReportRow, BenchError> {
    let store = Store::open_with(settings)?;
    for (number, some) in generate_blocks().chunks(1000).enumerate() {
        let puts =
            some.iter().enumerate().map(|(n, block)| put_block(&format!("b{}", number * 1000 + n), block)).collect();
        store.change_definitions(puts, &Actor::command_line(), 1).await?;
    }
    let mut vectors = RandomVectors(1);
    let missing = store.list_unembedded(RANDOM_MODEL, REGISTRY_BLOCKS)?;
    store
        .store_embeddings(RANDOM_MODEL, missing.into_iter().map(|one| (one.hash, vectors.next_vector())).collect())
        .await?;
    let queries = load_cases();
    let mut seconds = Vec::new();
    // The first search loads the vectors into memory.
    for wanted in queries.iter().take(1).chain(&queries) {
        let (vector, words) = (vectors.next_vector(), wanted.card.search_text());
        let since = Instant::now();
        let vector = Some((RANDOM_MODEL, vector.as_slice()));
        let found = store.search_blocks(BlockQuery { user: "ann", words: &words, vector, limit: MAX_RESULTS })?;
        seconds.push(since.elapsed().as_secs_f64());
        if found.len() != MAX_RESULTS {
            return Err(format!("{database} found {} blocks", found.len()).into());
        }
    }
    let sample = SampleStats::from_seconds(seconds.split_off(1));
    let row = ReportRow::new("search", &format!("among 10,000 blocks, {database}"), queries.len());
    Ok(row.with_samples(sample, None, 1).with_maximum(sample.median * 1e3, 10.0, "ms"))
}

/// Many blocks, each with words of two others and a unique number.
fn generate_blocks() -> Vec<Value> {
    let bases: Vec<Vec<&str>> = parse_lines(BLOCK_LINES).collect();
    let one = |n: usize| {
        let (one, other) = (&bases[n % bases.len()], &bases[(n * 7 + n / bases.len()) % bases.len()]);
        let (name, description) = (format!("{} {n}", one[0]), format!("{} Variant {n}.", one[2]));
        let use_when = Value::from(other[3]);
        Value::map([("name", name.into()), ("description", description.into()), ("use_when", use_when)])
    };
    (0..REGISTRY_BLOCKS).map(one).collect()
}

/// Random vectors, the same in each run.
struct RandomVectors(u64);

impl RandomVectors {
    fn next_vector(&mut self) -> Vec<f32> {
        let mut number = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        (0..VECTOR_DIMENSIONS).map(|_| number()).collect()
    }
}

fn parse_lines(data: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = data.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split('|').map(str::trim).collect())
}

fn put_block(id: &str, block: &Value) -> DefinitionChange {
    let key = DefinitionKey { user: SHARED_USER.into(), kind: DefinitionKind::Block, id: id.into() };
    DefinitionChange::Put(NewDefinition {
        key,
        format: None,
        content: render::to_json(block),
        origin: Origin::Api,
        uses: Vec::new(),
    })
}

/// `id | execution type | description | when to use it | inputs | outputs`
fn parse_block(fields: &[&str]) -> Value {
    let text = |field: usize| Value::from(fields[field]);
    Value::map([
        ("id", text(0)),
        ("execution_type", text(1)),
        ("description", text(2)),
        ("use_when", text(3)),
        ("input_schema", parse_schema(fields[4])),
        ("output_schema", parse_schema(fields[5])),
    ])
}

/// `kind | satisfying blocks | suggested id | execution type | description | inputs | outputs`
fn load_cases() -> Vec<SearchCase> {
    let one = |fields: Vec<&'static str>| {
        let text = |field: usize| Value::from(fields[field]);
        let definition = Value::map([
            ("suggested_id", text(2)),
            ("execution_type", text(3)),
            ("description", text(4)),
            ("input_schema", parse_schema(fields[5])),
            ("output_schema", parse_schema(fields[6])),
        ]);
        let would_do = fields[1].split(',').map(str::trim).filter(|id| *id != "-").collect();
        SearchCase { would_do, card: BlockCard::from_definition(&definition) }
    };
    parse_lines(QUERY_LINES).map(one).collect()
}

/// A JSON Schema of fields like `url:s limit?:i`; null if there are none.
fn parse_schema(fields: &str) -> Value {
    if fields.is_empty() {
        return Value::Null;
    }
    let (mut properties, mut required) = (Vec::new(), Vec::new());
    for field in fields.split(' ') {
        let (name, kind) = field.split_once(':').unwrap_or((field, ""));
        if !name.ends_with('?') {
            required.push(Value::from(name));
        }
        properties.push((name.trim_end_matches('?'), field_schema(kind)));
    }
    let properties = Value::map(properties);
    Value::map([("type", "object".into()), ("properties", properties), ("required", Value::list(required))])
}

fn field_schema(kind: &str) -> Value {
    let of = |kind: &str| Value::map([("type", Value::from(kind))]);
    match kind {
        "s" => of("string"),
        "i" => of("integer"),
        "n" => of("number"),
        "b" => of("boolean"),
        "o" => of("object"),
        "ls" => Value::map([("type", "array".into()), ("items", of("string"))]),
        "lo" => Value::map([("type", "array".into()), ("items", of("object"))]),
        _ => of("array"),
    }
}
