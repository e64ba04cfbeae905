//! A world in which there is nothing but a model with answers by prompt.

use std::sync::Arc;

use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{CallRequest, GenerateRequest, Generated, HttpReply, HttpRequest, ScrapeRequest};
use flowloom_core::error::StepError;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{Context, Effects, Functions, Http, Model, NoCode, Price, Reply, Scraper, Substeps};
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
        code: Arc::new(NoCode),
        clock: Arc::new(clock.clone()),
    }
}

fn refused<T>() -> Result<T, StepError> {
    Err(StepError::new(Code::StepRefused, "there is nothing but a model here"))
}

impl Model for World {
    fn resolve(&self, _named: Option<&str>) -> Result<String, StepError> {
        Ok("scripted:answers".into())
    }

    fn generate<'a>(&'a self, request: &'a GenerateRequest, _context: &'a Context) -> Reply<'a, Generated> {
        Box::pin(async move {
            let prompt = request.messages.last().map_or("", |message| message.content.as_str());
            let found = self.answers.iter().find(|(known, _)| known == prompt);
            let missing = || StepError::new(Code::ScriptExhausted, format!("there is no answer to {prompt:?}"));
            let (_, answer) = found.ok_or_else(missing)?;
            Ok(Generated { text: Some(answer.clone()), tool_calls: Vec::new(), usage: Usage::none() })
        })
    }

    fn window(&self, _model: &str) -> u64 {
        1000
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        text.len() as u64
    }

    fn default_max_tokens(&self, _model: &str) -> u64 {
        100
    }

    fn price(&self, _model: &str) -> Option<Price> {
        None
    }
}

impl Http for World {
    fn send<'a>(&'a self, _request: &'a HttpRequest, _context: &'a Context) -> Reply<'a, HttpReply> {
        Box::pin(async { refused() })
    }
}

impl Scraper for World {
    fn fetch<'a>(&'a self, _request: &'a ScrapeRequest, _context: &'a Context) -> Reply<'a, String> {
        Box::pin(async { refused() })
    }

    fn select(&self, _html: &str, _selector: &str) -> Result<Vec<String>, StepError> {
        refused()
    }
}

impl Functions for World {
    fn class(&self, _request: &CallRequest) -> EffectClass {
        EffectClass::AtLeastOnce
    }

    fn permit(&self, _agent: &str, _function: &str) -> Result<(), StepError> {
        refused()
    }

    fn call<'a>(
        &'a self,
        _request: &'a CallRequest,
        _context: &'a Context,
        _below: &'a dyn Substeps,
    ) -> Reply<'a, Value> {
        Box::pin(async { refused() })
    }
}
