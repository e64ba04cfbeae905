//! The local model next to llama.cpp's own server, with the same file, prompts and threads, in turns: how fast each reads
//! a prompt and writes an answer, and how long ours takes to load.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use flowloom_core::chat::{GenerateOptions, Message, Role};
use flowloom_core::effect::{GenerateRequest, Purpose};
use flowloom_core::{Path as StepPath, RunId};
use flowloom_models::{InferenceEngine as _, LOCAL_MODEL, ProcessEnvironment, cache_dir};
use flowloom_models_local::LocalEngine;
use flowloom_runtime::effects::{Deltas, EffectContext};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::BenchError;
use crate::client::{ClientConnection, build_request};
use crate::measure::ReportRow;

/// Words of the prompts, and length of the answers in tokens.
const PROMPTS: [(usize, u32); 3] = [(11, 128), (320, 128), (1250, 64)];
/// Measurements of each prompt, after one that warms up.
const REPETITIONS: usize = 5;
/// The peer, which gets the number of threads that ours uses on an idle machine.
const PEER_SCRIPT: &str = "bench/peers/llama-cpp.py";
const PEER_PYTHON: &str = "target/peers/python/bin/python";

/// Tokens per second of a prompt and of its answer.
#[derive(Clone, Copy, Default)]
struct Rates {
    prompt_tokens: u64,
    prompt: f64,
    answer: f64,
}

/// Measures all prompts in turns.
pub(crate) async fn measure_local_model() -> Result<Vec<ReportRow>, BenchError> {
    let file = cache_dir(&ProcessEnvironment).join(format!("{LOCAL_MODEL}.gguf"));
    if !file.is_file() {
        return Ok(vec![ReportRow::new("local", "not measured: run `make model`", 0)]);
    }
    let mut rows = vec![measure_load(&file).await?];
    let peer = Peer::start(&file)?;
    let engine = LocalEngine::default();
    for (words, answer_tokens) in PROMPTS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for turn in 0..=REPETITIONS {
            let mine = ask_ours(&engine, &file, words, answer_tokens).await?.1;
            let other = match &peer {
                Some(peer) => peer.ask(words, answer_tokens).await?,
                None => Rates::default(),
            };
            if turn > 0 {
                ours.push(mine);
                theirs.push(other);
            }
        }
        rows.extend(compare(&ours, peer.is_some().then_some(&theirs)));
    }
    Ok(rows)
}

fn compare(ours: &[Rates], theirs: Option<&Vec<Rates>>) -> [ReportRow; 2] {
    let tokens = ours.first().map_or(0, |rates| rates.prompt_tokens);
    let median = |rates: &[Rates], pick: fn(&Rates) -> f64| {
        let mut values: Vec<f64> = rates.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let row = |what: &str, pick: fn(&Rates) -> f64, bound: f64| {
        let rate = median(ours, pick);
        let Some(theirs) = theirs else {
            let text = format!("{what} at {tokens} prompt tokens, tokens/s (no peer: make bench installs it)");
            return ReportRow::new("local", &text, 0).with_value(rate);
        };
        let peer = median(theirs, pick);
        let text = format!("{what} at {tokens} prompt tokens: {rate:.1} tokens/s, llama.cpp's server {peer:.1}");
        ReportRow::new("local", &text, 0).with_minimum(rate / peer, bound, "x")
    };
    [row("prompt", |rates| rates.prompt, 1.0), row("answer", |rates| rates.answer, 0.95)]
}

/// How much longer the first answer of a process takes than the second one.
async fn measure_load(file: &Path) -> Result<ReportRow, BenchError> {
    let mut seconds = Vec::new();
    for _ in 0..REPETITIONS {
        let engine = LocalEngine::default();
        let (cold, _) = ask_ours(&engine, file, 1, 2).await?;
        let (warm, _) = ask_ours(&engine, file, 1, 2).await?;
        seconds.push(cold - warm);
    }
    seconds.sort_by(f64::total_cmp);
    let load = seconds[seconds.len() / 2];
    Ok(ReportRow::new("local", "load, in a process of its own", 0).with_maximum(load, 0.2, "s"))
}

/// When the text of an answer arrived.
#[derive(Default)]
struct Arrivals(Mutex<Option<Instant>>);

impl Deltas for Arrivals {
    fn push(&self, _: &StepPath, _: u32, _: &str) {
        self.0.lock().get_or_insert_with(Instant::now);
    }
}

/// Seconds until the first text of an answer, and the rates of the whole answer.
async fn ask_ours(engine: &LocalEngine, file: &Path, words: usize, tokens: u32) -> Result<(f64, Rates), BenchError> {
    let arrivals = Arc::new(Arrivals::default());
    let context = EffectContext {
        run: RunId::new(0, [0; 10]),
        epoch: 1,
        path: StepPath::root(),
        attempt: 1,
        retried_attempt: 0,
        user: "bench".into(),
        agent: None,
        definition: Arc::default(),
        depth: 0,
        trace: None,
        asks_first: false,
        allowance: None,
        deltas: arrivals.clone(),
    };
    let request = GenerateRequest {
        model: format!("local:{LOCAL_MODEL}"),
        messages: vec![Message::new(Role::User, build_prompt(words))].into(),
        tools: Vec::new(),
        schema: None,
        options: GenerateOptions { max_tokens: Some(tokens), ..GenerateOptions::default() },
        purpose: Purpose::Step,
    };
    let start = Instant::now();
    let reply = engine.generate(file, &request, &context).await.map_err(|failure| failure.message)?;
    let whole = start.elapsed().as_secs_f64();
    let arrived = *arrivals.0.lock();
    let first = arrived.map_or(whole, |at| at.duration_since(start).as_secs_f64());
    let rates = Rates {
        prompt_tokens: reply.usage.input_tokens,
        prompt: reply.usage.input_tokens as f64 / first,
        answer: reply.usage.output_tokens.saturating_sub(1) as f64 / (whole - first).max(1e-9),
    };
    Ok((first, rates))
}

fn build_prompt(words: usize) -> String {
    let text = "The weaver sets up the loom before the first thread runs. ".repeat(words.div_ceil(11));
    format!("{text}\nTell a long story about the weaver.")
}

/// llama.cpp's own server. It is killed when this is dropped.
struct Peer {
    child: Child,
    address: std::net::SocketAddr,
}

impl Peer {
    /// Starts the server; `None` if it is not installed.
    fn start(file: &Path) -> Result<Option<Peer>, BenchError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default();
        let python: PathBuf = root.join(PEER_PYTHON);
        if !python.is_file() {
            return Ok(None);
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
        let mut command = Command::new(python);
        command.arg(root.join(PEER_SCRIPT)).arg(file).arg(threads);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("it has no stdout")?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().trim_start_matches("http://").parse()?;
        Ok(Some(Peer { child, address }))
    }

    /// The rates that the server measures itself.
    async fn ask(&self, words: usize, tokens: u32) -> Result<Rates, BenchError> {
        let body = json!({
            "messages": [{ "role": "user", "content": build_prompt(words) }],
            "max_tokens": tokens, "temperature": 0, "cache_prompt": false,
        });
        let request = build_request("POST", "/v1/chat/completions", &body.to_string());
        let mut connection = ClientConnection::open(self.address).await?;
        let answer: Value = serde_json::from_slice(connection.send_request(&request).await?.require_status(200)?)?;
        let timing = |name: &str| answer["timings"][name].as_f64().unwrap_or_default();
        Ok(Rates {
            prompt_tokens: timing("prompt_n") as u64,
            prompt: timing("prompt_per_second"),
            answer: timing("predicted_per_second"),
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
