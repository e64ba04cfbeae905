//! The `World` of an authoring run: every effect is a recorded child step, every event goes into the journal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use flowloom_author::dry_run::DryRun;
use flowloom_author::{FoundBlocks, ModelAnswer, ModelQuestion, PlannerEnv, PlannerEvent, RequiredBlock, TrialOutcome};
use flowloom_core::chat::{GenerateOptions, Message, Role};
use flowloom_core::effect::{CallRequest, GenerateRequest, Payload, Purpose, Request};
use flowloom_core::error::StepFailure;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::{ChildEffects, EffectContext, EffectFuture};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::job::{AuthoringOptions, parse_as, to_value};
use super::trials::{CandidateSearch, DryRunRequest, FindRequest, TrialRequest};
use super::{AuthoringEnv, functions, persist};

/// The world of one stage.
pub(super) struct RecordedEnv<'a> {
    author: &'a AuthoringEnv,
    options: &'a AuthoringOptions,
    context: &'a EffectContext,
    child_effects: &'a dyn ChildEffects,
    /// Whether the warning about full-text-only search was emitted.
    has_warned: AtomicBool,
}

impl<'a> RecordedEnv<'a> {
    pub(super) fn new(
        author: &'a AuthoringEnv,
        how: &'a AuthoringOptions,
        context: &'a EffectContext,
        below: &'a dyn ChildEffects,
    ) -> RecordedEnv<'a> {
        RecordedEnv { author, options: how, context, child_effects: below, has_warned: AtomicBool::new(false) }
    }

    /// Calls a function as a child step.
    async fn call_function<T: DeserializeOwned>(
        &self,
        function: &str,
        arguments: &impl Serialize,
    ) -> Result<T, StepFailure> {
        let arguments = to_value(arguments)?.as_map().cloned().unwrap_or_default();
        let request = CallRequest { function: function.into(), payload: Payload::from_arguments(arguments) };
        parse_as(&self.child_effects.perform_request(Request::Call(request)).await?, "a recorded result")
    }

    /// Warns that the search uses full text only, which finds less.
    fn warn_text_only(&self, reason: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let message = format!("block search uses full text only: {reason}");
            self.emit_event(PlannerEvent::Stage {
                stage: flowloom_author::search::STAGE_NAME,
                status: "running",
                message,
            });
        }
    }
}

impl PlannerEnv for RecordedEnv<'_> {
    fn ask_model<'a>(&'a self, question: &'a ModelQuestion) -> EffectFuture<'a, ModelAnswer> {
        Box::pin(async move {
            let system = Message::new(Role::System, question.system.as_str());
            let messages: Vec<Message> = std::iter::once(system).chain(question.messages.iter().cloned()).collect();
            let request = GenerateRequest {
                model: self.author.models.resolve(self.options.model.as_deref())?,
                messages: messages.into(),
                tools: Vec::new(),
                schema: question.schema.clone(),
                options: GenerateOptions::default(),
                purpose: Purpose::Judged,
            };
            let started = Instant::now();
            let reply = self.child_effects.perform_request(Request::Generate(Box::new(request))).await?;
            let text = reply.as_str().unwrap_or_default().to_owned();
            Ok(ModelAnswer { text, elapsed: started.elapsed().as_secs_f64() })
        })
    }

    fn list_candidate_blocks<'a>(&'a self, intent: &'a str) -> EffectFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let arguments = Map::from_iter([("intent".into(), Value::from(intent))]);
            self.call_function(functions::CANDIDATES_FUNCTION, &arguments).await
        })
    }

    fn find_blocks<'a>(&'a self, wanted: &'a RequiredBlock) -> EffectFuture<'a, FoundBlocks> {
        Box::pin(async move {
            let request = FindRequest { wanted: wanted.clone(), has_global_id: self.options.has_global_id };
            let search: CandidateSearch = self.call_function(functions::FIND_FUNCTION, &request).await?;
            search.by_words.iter().for_each(|reason| self.warn_text_only(reason));
            Ok(FoundBlocks { candidates: search.candidates, taken: search.taken })
        })
    }

    fn try_block<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> EffectFuture<'a, TrialOutcome> {
        Box::pin(async move {
            let (block, inputs, model) = (block.clone(), inputs.clone(), self.options.block_model.clone());
            self.call_function(functions::TRIAL_FUNCTION, &TrialRequest { block, inputs, model }).await
        })
    }

    fn keep_block<'a>(&'a self, block: &'a Value) -> EffectFuture<'a, ()> {
        Box::pin(async move {
            match self.options.keep {
                true => persist::store_block(self.author, block, self.context).await,
                false => Ok(()),
            }
        })
    }

    fn dry_run<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> EffectFuture<'a, DryRun> {
        Box::pin(async move {
            let definition = flowloom_author::wire::build_definition(pipeline, blocks);
            let model = self.options.block_model.clone();
            self.call_function(functions::DRY_RUN_FUNCTION, &DryRunRequest { definition, model }).await
        })
    }

    fn emit_event(&self, event: PlannerEvent) {
        let mut data = event.to_payload().as_map().cloned().unwrap_or_default();
        // The record has a field for the name.
        data.shift_remove("type");
        self.child_effects.report_progress(event.name(), data.into());
    }
}
