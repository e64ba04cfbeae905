//! Functions of the authoring pipeline: `author::clarify`, one function per stage, and the operations that stages
//! perform as child steps.

use std::sync::Arc;

use flowloom_author::clarify::{Conversation, clarify_goal};
use flowloom_author::{PlannerSettings, Stage};
use flowloom_core::effect::{CallRequest, Payload};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{ChildEffects, EffectContext, EffectFuture};
use flowloom_tools::{FunctionConfig, NativeFunction};
use serde::Deserialize;

use super::job::{AuthoringJob, AuthoringOptions, function_input, parse_as, to_value};
use super::trials::{DryRunRequest, FindRequest, TrialRequest};
use super::world::RecordedEnv;
use super::{AuthoringEnv, persist};

/// Lists the existing blocks that may serve a goal; called as a child step of `author::decompose`.
pub(super) const CANDIDATES_FUNCTION: &str = "author::offer";
/// Finds blocks; called as a child step of `author::search`.
pub(super) const FIND_FUNCTION: &str = "author::find";
/// Runs a trial of a block; called as a child step of `author::create`.
pub(super) const TRIAL_FUNCTION: &str = "author::attempt";
/// Executes a dry run of a pipeline; called as a child step of `author::wire`.
pub(super) const DRY_RUN_FUNCTION: &str = "author::rehearse";

/// The operation that an authoring function performs.
#[derive(Clone, Copy)]
enum AuthorOperation {
    Clarify,
    Stage(Stage),
    Store,
    ListCandidates,
    Find,
    Trial,
    DryRun,
}

struct AuthorFunction {
    author: Arc<AuthoringEnv>,
    operation: AuthorOperation,
}

/// All authoring functions, by id.
pub fn build_functions(author: AuthoringEnv) -> Vec<(&'static str, FunctionConfig)> {
    let author = Arc::new(author);
    let all = [
        ("author::clarify", AuthorOperation::Clarify),
        ("author::decompose", AuthorOperation::Stage(Stage::Decompose)),
        ("author::search", AuthorOperation::Stage(Stage::Search)),
        ("author::create", AuthorOperation::Stage(Stage::Create)),
        ("author::wire", AuthorOperation::Stage(Stage::Wire)),
        ("author::keep", AuthorOperation::Store),
        (CANDIDATES_FUNCTION, AuthorOperation::ListCandidates),
        (FIND_FUNCTION, AuthorOperation::Find),
        (TRIAL_FUNCTION, AuthorOperation::Trial),
        (DRY_RUN_FUNCTION, AuthorOperation::DryRun),
    ];
    let function = |operation| FunctionConfig::Native(Arc::new(AuthorFunction { author: author.clone(), operation }));
    all.into_iter().map(|(id, operation)| (id, function(operation))).collect()
}

impl NativeFunction for AuthorFunction {
    /// Child steps are recorded individually, and storing the same block or pipeline twice has no further effect.
    fn effect_class(&self) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    /// Only the plans of authoring call it.
    fn is_public(&self) -> bool {
        false
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        let (author, payload) = (&*self.author, &request.payload);
        Box::pin(async move {
            match self.operation {
                AuthorOperation::Clarify => run_clarify(author, payload, context, below).await,
                AuthorOperation::Stage(stage) => run_stage(author, stage, payload, context, below).await,
                AuthorOperation::Store => {
                    persist::finish_pipeline(author, AuthoringJob::from_payload(payload)?, context, below).await
                }
                AuthorOperation::ListCandidates => {
                    let intent = payload.get("intent").unwrap_or_default();
                    to_value(&author.list_candidate_blocks(intent.as_str().unwrap_or_default(), &context.user).await?)
                }
                AuthorOperation::Find => {
                    let request: FindRequest = parse_as(&payload.to_value(), "a block that is wanted")?;
                    to_value(&author.find_candidates(&request, &context.user).await?)
                }
                AuthorOperation::Trial => {
                    let request: TrialRequest = parse_as(&payload.to_value(), "a block and its inputs")?;
                    to_value(&author.run_trial(&request, context).await?)
                }
                AuthorOperation::DryRun => {
                    let request: DryRunRequest = parse_as(&payload.to_value(), "a pipeline with its blocks")?;
                    to_value(&author.dry_run(&request, context).await?)
                }
            }
        })
    }
}

/// The input of `author::clarify`: the conversation and the authoring options.
#[derive(Deserialize)]
struct ClarifyRequest {
    #[serde(flatten)]
    conversation: Conversation,
    #[serde(default)]
    how: AuthoringOptions,
}

async fn run_clarify(
    author: &AuthoringEnv,
    payload: &Payload,
    context: &EffectContext,
    below: &dyn ChildEffects,
) -> Result<Value, StepFailure> {
    let ClarifyRequest { conversation, how } =
        parse_as(&function_input(payload), "{\"message\": \"…\", \"history\": […]}")?;
    to_value(&clarify_goal(&RecordedEnv::new(author, &how, context, below), &conversation).await?)
}

/// Runs one stage.
async fn run_stage(
    author: &AuthoringEnv,
    stage: Stage,
    payload: &Payload,
    context: &EffectContext,
    below: &dyn ChildEffects,
) -> Result<Value, StepFailure> {
    let mut job = AuthoringJob::from_payload(payload)?;
    if job.draft.user_id.is_empty() {
        job.draft.user_id = context.user.to_string();
    }
    let settings = PlannerSettings { thresholds: author.blocks.thresholds(), sources: author.sources.clone() };
    job.draft.run_stage(stage, &RecordedEnv::new(author, &job.how, context, below), &settings).await?;
    to_value(&job)
}
