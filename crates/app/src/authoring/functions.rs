//! The functions that make pipelines of wishes: `author::clarify`, one for each stage, and what the stages have done as
//! steps of their own.

use std::sync::Arc;

use flowloom_author::clarify::{Clarified, Conversation, clarify};
use flowloom_author::{Settings, Stage, Wanted};
use flowloom_core::args::Payload;
use flowloom_core::error::StepError;
use flowloom_core::plan::EffectClass;
use flowloom_core::request::CallRequest;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{Context, Reply, Substeps};
use flowloom_tools::{FunctionConfig, NativeFunction};
use serde::Deserialize;

use super::job::{How, Job, given, read, value_of};
use super::trials::{Attempt, Rehearse};
use super::world::Recorded;
use super::{Author, kept};

/// Finds blocks; a step below `author::search`.
pub(super) const FIND: &str = "author::find";
/// Tries a block; a step below `author::create`.
pub(super) const ATTEMPT: &str = "author::attempt";
/// Rehearses a pipeline; a step below `author::wire`.
pub(super) const REHEARSE: &str = "author::rehearse";

/// What is asked where a model wants to ask and does not say what.
const ANYTHING: &str = "What should it work on, and what should come out in the end?";

/// What a function does.
#[derive(Clone, Copy)]
enum Operation {
    Clarify,
    Stage(Stage),
    Keep,
    Find,
    Attempt,
    Rehearse,
}

struct AuthorFunction {
    author: Arc<Author>,
    operation: Operation,
}

/// All of them, by id.
pub fn functions(author: Author) -> Vec<(&'static str, FunctionConfig)> {
    let author = Arc::new(author);
    let all = [
        ("author::clarify", Operation::Clarify),
        ("author::decompose", Operation::Stage(Stage::Decompose)),
        ("author::search", Operation::Stage(Stage::Search)),
        ("author::create", Operation::Stage(Stage::Create)),
        ("author::wire", Operation::Stage(Stage::Wire)),
        ("author::keep", Operation::Keep),
        (FIND, Operation::Find),
        (ATTEMPT, Operation::Attempt),
        (REHEARSE, Operation::Rehearse),
    ];
    let function = |operation| FunctionConfig::Native(Arc::new(AuthorFunction { author: author.clone(), operation }));
    all.into_iter().map(|(id, operation)| (id, function(operation))).collect()
}

impl NativeFunction for AuthorFunction {
    /// What was done is recorded below; what is kept is the same when it is kept again.
    fn class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn call<'a>(&'a self, request: &'a CallRequest, context: &'a Context, below: &'a dyn Substeps) -> Reply<'a, Value> {
        let (author, payload) = (&*self.author, &request.payload);
        Box::pin(async move {
            match self.operation {
                Operation::Clarify => clarified(author, payload, below).await,
                Operation::Stage(stage) => advanced(author, stage, payload, (context, below)).await,
                Operation::Keep => kept::pipeline(author, Job::of(payload)?, (context, below)).await,
                Operation::Find => {
                    let wanted: Wanted = read(&payload.get("wanted").unwrap_or_default(), "a block that is wanted")?;
                    value_of(&author.find(&wanted, &context.owner).await?)
                }
                Operation::Attempt => {
                    let wish: Attempt = read(&payload.to_value(), "a block and its inputs")?;
                    value_of(&author.attempt(&wish, context).await?)
                }
                Operation::Rehearse => {
                    let wish: Rehearse = read(&payload.to_value(), "a pipeline with its blocks")?;
                    value_of(&author.rehearse(&wish, context).await?)
                }
            }
        })
    }
}

/// What a person said, and how it is looked at.
#[derive(Deserialize)]
struct Wish {
    #[serde(flatten)]
    conversation: Conversation,
    #[serde(default)]
    how: How,
}

async fn clarified(author: &Author, payload: &Payload, below: &dyn Substeps) -> Result<Value, StepError> {
    let Wish { conversation, how } = read(&given(payload), "{\"message\": \"…\", \"history\": […]}")?;
    let clarified = clarify(&Recorded::new(author, &how, below), &conversation).await?;
    let asks_nothing = !clarified.ready && clarified.question.is_none();
    let question = if asks_nothing { Some(ANYTHING.to_owned()) } else { clarified.question };
    value_of(&Clarified { question, ..clarified })
}

/// One stage. Blocks that passed their trials are kept, whatever becomes of the others.
async fn advanced(
    author: &Author,
    stage: Stage,
    payload: &Payload,
    (context, below): (&Context, &dyn Substeps),
) -> Result<Value, StepError> {
    let mut job = Job::of(payload)?;
    if job.draft.user_id.is_empty() {
        job.draft.user_id = context.owner.to_string();
    }
    let settings = Settings { thresholds: author.blocks.thresholds(), sources: author.sources.clone() };
    let done = job.draft.advance(stage, &Recorded::new(author, &job.how, below), &settings).await;
    if stage == Stage::Create && job.how.keep {
        kept::blocks(author, &job.draft, context).await?;
    }
    done?;
    value_of(&job)
}
