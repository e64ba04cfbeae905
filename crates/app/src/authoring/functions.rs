//! Functions of the authoring pipeline: `author::clarify`, one function per stage, and the operations that stages
//! perform as child steps.

use std::sync::Arc;

use flowloom_author::clarify::{Clarified, Conversation, clarify};
use flowloom_author::{Settings, Stage, Wanted};
use flowloom_core::effect::{CallRequest, Payload};
use flowloom_core::error::StepError;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{Context, Reply, Substeps};
use flowloom_tools::{FunctionConfig, NativeFunction};
use serde::Deserialize;

use super::job::{How, Job, given, read, value_of};
use super::trials::{Attempt, Rehearse};
use super::world::Recorded;
use super::{Author, kept};

/// Finds blocks; called as a child step of `author::search`.
pub(super) const FIND: &str = "author::find";
/// Runs a trial of a block; called as a child step of `author::create`.
pub(super) const ATTEMPT: &str = "author::attempt";
/// Executes a dry run of a pipeline; called as a child step of `author::wire`.
pub(super) const REHEARSE: &str = "author::rehearse";

/// The question asked if the model wants clarification but does not name a question.
const ANYTHING: &str = "What should it work on, and what should come out in the end?";

/// The operation that an authoring function performs.
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

/// All authoring functions, by id.
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
    /// Child steps are recorded individually, and storing the same pipeline twice has no further effect.
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

/// The input of `author::clarify`: the conversation and the authoring options.
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

/// Runs one stage. Blocks that passed their trials are stored even if the stage fails.
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
