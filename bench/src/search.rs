//! Block search: how often the right block is found and a wrong one taken, on the data sets in `data/`, which list
//! requests and the blocks that satisfy them; and how long a search takes among ten thousand blocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use flowloom_core::Value;
use flowloom_core::block::{Card, Thresholds, fit};
use flowloom_core::render;
use flowloom_models::embed::Embed;
use flowloom_models::{ModelSettings, Models, ProcessEnvironment};
use flowloom_models_local::LocalEngine;
use flowloom_store::{
    BlockQuery, Change, Database, DefinitionKey, Durability, FoundBlock, Kind, NewDefinition, Origin, SHARED, Settings,
    Store,
};

use crate::Failure;
use crate::measure::{Row, Sample};

const BLOCKS: &str = include_str!("../data/blocks.txt");
const QUERIES: &str = include_str!("../data/queries.txt");
/// Number of results that are considered.
const LOOKED_AT: usize = 5;
/// Number of blocks of the large registry, and the width of their vectors.
const MANY: usize = 10_000;
const WIDTH: usize = 384;
/// Name of the model of random vectors.
const RANDOM: &str = "bench:random";

/// A row of the data set of requests.
struct Wanted {
    would_do: Vec<&'static str>,
    card: Card,
}

/// Quality with the local model, and duration on both databases.
pub(crate) async fn search() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let models =
        Models::new(ModelSettings::default(), Arc::new(ProcessEnvironment)).with_local(Arc::new(LocalEngine::new()));
    match models.embedder(None) {
        Ok(embedder) => rows.append(&mut quality(&*embedder).await?),
        Err(error) => rows.push(Row::new("search", &format!("not measured: {error}"), 0)),
    }
    let folder = tempfile::tempdir()?;
    let settings = Settings::of(folder.path(), Durability::Off);
    rows.push(times("SQLite", &settings).await?);
    if let Some(postgres) = test_postgres::Database::create() {
        let database = Some(Database::parse(&postgres.url)?);
        rows.push(times("Postgres", &Settings { database, ..settings }).await?);
    }
    Ok(rows)
}

async fn quality(embedder: &dyn Embed) -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path(), Durability::Off)?;
    let blocks: BTreeMap<&str, Card> = lines(BLOCKS).map(|fields| (fields[0], Card::of(&block(&fields)))).collect();
    let puts = lines(BLOCKS).map(|fields| put(fields[0], &block(&fields))).collect();
    store.change_definitions(puts, 1).await?;
    let missing = store.unembedded(embedder.model(), MANY)?;
    let texts: Vec<String> = missing.iter().map(|one| one.text.clone()).collect();
    let vectors = embedder.embed(&texts).await?;
    let vectors = missing.into_iter().zip(vectors).map(|(one, vector)| (one.hash, vector.to_vec())).collect();
    store.keep_embeddings(embedder.model(), vectors).await?;

    let mut tally = Tally::default();
    for wanted in wanted() {
        let vector = embedder.embed(&[wanted.card.text()]).await?.remove(0);
        let (words, vector) = (wanted.card.words(), Some((embedder.model(), &*vector)));
        let found = store.find_blocks(BlockQuery { holder: "ann", words: &words, vector, limit: LOOKED_AT })?;
        let is_taken = |found: &&FoundBlock| {
            fit(&wanted.card, &blocks[found.id.as_str()], found.similarity, &Thresholds::default()).is_found()
        };
        tally.count(&wanted, &found, found.iter().find(is_taken));
    }
    Ok(tally.rows())
}

/// Counts of outcomes.
#[derive(Default)]
struct Tally {
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

impl Tally {
    fn count(&mut self, wanted: &Wanted, found: &[FoundBlock], taken: Option<&FoundBlock>) {
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

    fn rows(&self) -> Vec<Row> {
        let row = |what: &str, n: usize| Row::new("search", what, n);
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let (fitted, unfitted) = (self.fitted, self.unfitted);
        vec![
            row("recall@1", fitted).says(share(self.first, fitted)),
            row("recall@5", fitted).at_least(share(self.among, fitted), 0.95, ""),
            row("a block taken where none fits", unfitted).at_most(share(self.taken, unfitted), 0.05, ""),
            row("a wrong block taken where one fits", fitted).at_most(share(self.wrong, fitted), 0.05, ""),
            row("the right block taken where one fits", fitted).says(share(self.right, fitted)),
        ]
    }
}

async fn times(database: &str, settings: &Settings) -> Result<Row, Failure> {
    let store = Store::open_with(settings)?;
    for (number, some) in many().chunks(1000).enumerate() {
        let puts = some.iter().enumerate().map(|(n, block)| put(&format!("b{}", number * 1000 + n), block)).collect();
        store.change_definitions(puts, 1).await?;
    }
    let mut vectors = Random(1);
    let missing = store.unembedded(RANDOM, MANY)?;
    store.keep_embeddings(RANDOM, missing.into_iter().map(|one| (one.hash, vectors.next())).collect()).await?;
    let queries = wanted();
    let mut seconds = Vec::new();
    // The first search loads the vectors into memory.
    for wanted in queries.iter().take(1).chain(&queries) {
        let (vector, words) = (vectors.next(), wanted.card.words());
        let since = Instant::now();
        let vector = Some((RANDOM, vector.as_slice()));
        let found = store.find_blocks(BlockQuery { holder: "ann", words: &words, vector, limit: LOOKED_AT })?;
        seconds.push(since.elapsed().as_secs_f64());
        if found.len() != LOOKED_AT {
            return Err(format!("{database} found {} blocks", found.len()).into());
        }
    }
    let sample = Sample::of(seconds.split_off(1));
    let row = Row::new("search", &format!("among 10,000 blocks, {database}"), queries.len());
    Ok(row.measured(sample, None, 1).at_most(sample.median * 1e3, 10.0, "ms"))
}

/// Many blocks, each with words of two others and a unique number.
fn many() -> Vec<Value> {
    let bases: Vec<Vec<&str>> = lines(BLOCKS).collect();
    let one = |n: usize| {
        let (one, other) = (&bases[n % bases.len()], &bases[(n * 7 + n / bases.len()) % bases.len()]);
        let (name, description) = (format!("{} {n}", one[0]), format!("{} Variant {n}.", one[2]));
        let use_when = Value::from(other[3]);
        Value::map([("name", name.into()), ("description", description.into()), ("use_when", use_when)])
    };
    (0..MANY).map(one).collect()
}

/// Random vectors, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> Vec<f32> {
        let mut number = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        (0..WIDTH).map(|_| number()).collect()
    }
}

fn lines(data: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = data.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split('|').map(str::trim).collect())
}

fn put(id: &str, block: &Value) -> Change {
    let key = DefinitionKey { holder: SHARED.into(), kind: Kind::Block, id: id.into() };
    Change::Put(NewDefinition {
        key,
        format: None,
        content: render::json(block),
        origin: Origin::Api,
        uses: Vec::new(),
    })
}

/// `id | execution type | description | when to use it | inputs | outputs`
fn block(fields: &[&str]) -> Value {
    let text = |field: usize| Value::from(fields[field]);
    Value::map([
        ("id", text(0)),
        ("execution_type", text(1)),
        ("description", text(2)),
        ("use_when", text(3)),
        ("input_schema", schema(fields[4])),
        ("output_schema", schema(fields[5])),
    ])
}

/// `kind | satisfying blocks | suggested id | execution type | description | inputs | outputs`
fn wanted() -> Vec<Wanted> {
    let one = |fields: Vec<&'static str>| {
        let text = |field: usize| Value::from(fields[field]);
        let definition = Value::map([
            ("suggested_id", text(2)),
            ("execution_type", text(3)),
            ("description", text(4)),
            ("input_schema", schema(fields[5])),
            ("output_schema", schema(fields[6])),
        ]);
        let would_do = fields[1].split(',').map(str::trim).filter(|id| *id != "-").collect();
        Wanted { would_do, card: Card::of(&definition) }
    };
    lines(QUERIES).map(one).collect()
}

/// A JSON Schema of fields like `url:s limit?:i`; null if there are none.
fn schema(fields: &str) -> Value {
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
