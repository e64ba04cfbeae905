//! A world in which there is nothing but a model with answers by prompt.

use std::sync::Arc;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, GenerateReply, GenerateRequest, HttpReply, HttpRequest, ScrapeRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{
    ChildEffects, EffectContext, EffectFuture, Effects, Functions, HttpSender, Model, NoCodeRunner, Price, Scraper,
};
use flowloom_runtime::sim::SimClock;

struct World {
    answers: Vec<(String, String)>,
}

/// Effects whose model has these answers by prompt.
pub(crate) fn effects(clock: &SimClock, answers: &[(&str, &str)]) -> Effects {
    let answers = answers.iter().map(|(prompt, answer)| ((*prompt).to_owned(), (*answer).to_owned())).collect();
    let world = Arc::new(World { answers });
    Effects {
        model: world.clone(),
        http: world.clone(),
        scraper: world.clone(),
        functions: world,
        code: Arc::new(NoCodeRunner),
        clock: Arc::new(clock.clone()),
    }
}

fn refused<T>() -> Result<T, StepFailure> {
    Err(StepFailure::new(Code::StepRefused, "there is nothing but a model here"))
}

impl Model for World {
    fn resolve(&self, _named: Option<&str>) -> Result<String, StepFailure> {
        Ok("scripted:answers".into())
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let prompt = request.messages.last().map_or("", |message| message.content.as_str());
            let found = self.answers.iter().find(|(known, _)| known == prompt);
            let missing = || StepFailure::new(Code::ScriptExhausted, format!("there is no answer to {prompt:?}"));
            let (_, answer) = found.ok_or_else(missing)?;
            Ok(GenerateReply {
                text: Some(answer.clone()),
                tool_calls: Vec::new(),
                usage: Usage::none(),
                ..GenerateReply::default()
            })
        })
    }

    fn context_window(&self, _model: &str) -> u64 {
        1000
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        100
    }

    fn find_price(&self, _model: &str) -> Option<Price> {
        None
    }
}

impl HttpSender for World {
    fn send_request<'a>(
        &'a self,
        _request: &'a HttpRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, HttpReply> {
        Box::pin(async { refused() })
    }
}

impl Scraper for World {
    fn fetch_page<'a>(&'a self, _request: &'a ScrapeRequest, _context: &'a EffectContext) -> EffectFuture<'a, String> {
        Box::pin(async { refused() })
    }

    fn select_html(&self, _html: &str, _selector: &str) -> Result<Vec<String>, StepFailure> {
        refused()
    }
}

impl Functions for World {
    fn effect_class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn check_agent(&self, _agent: &str) -> Result<(), StepFailure> {
        Ok(())
    }

    fn check_permission(&self, _agent: &str, _function: &str) -> Result<(), StepFailure> {
        refused()
    }

    fn call_function<'a>(
        &'a self,
        _request: &'a CallRequest,
        _context: &'a EffectContext,
        _below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        Box::pin(async { refused() })
    }
}
