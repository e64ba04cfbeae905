//! Model calls within the budget of the run.

use std::sync::Arc;

use flowloom_core::budget::Amount;
use flowloom_core::category::Category;
use flowloom_core::chat::Usage;
use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateReply, GenerateRequest, Purpose};
use flowloom_core::error::StepFailure;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use super::effect::{EffectFailure, EffectOutcome, FailedAttempt};
use super::{Interpreter, Interrupt};
use crate::effects::{BudgetAllowance, EffectContext};

impl Interpreter {
    /// A model call within the budget: an upper bound is reserved before it and settled after it.
    pub(super) async fn generate_within_budget(
        &self,
        request: &GenerateRequest,
        context: &mut EffectContext,
    ) -> Result<EffectOutcome, EffectFailure> {
        if self.limits.tokens.is_none() && self.limits.micro_usd.is_none() {
            let path = context.path.clone();
            let answered = self.generate_reply(request, context).await;
            self.ledger.add_usage(find_usage(&answered));
            return Ok(answer_outcome(answered.map_err(|failed| classify_failure(failed, path))?, request));
        }
        let mut bounded = Box::new(request.clone());
        let path = context.path.clone();
        let exceeded = |error| over_budget(error, path.clone());
        let claim = self.bound_cost(&mut bounded).map_err(exceeded)?;
        let held = self.ledger.reserve_amount(&self.limits, claim).await.map_err(exceeded)?;
        let answered = self.generate_reply(&bounded, context).await;
        held.settle_usage(find_usage(&answered));
        Ok(answer_outcome(answered.map_err(|failed| classify_failure(failed, path))?, request))
    }

    /// Calls a model. A failure has the usage of the answers that were refused.
    async fn generate_reply(
        &self,
        request: &GenerateRequest,
        context: &mut EffectContext,
    ) -> Result<GenerateReply, FailedAttempt> {
        let allowance = Arc::new(BudgetAllowance::new(self.limits.clone()));
        context.allowance = Some(allowance.clone());
        let call = || self.effects.model.generate_reply(request, context);
        let answered = self.repeat_in_outage(|| true, call).await;
        answered.map_err(|error| FailedAttempt { error, usage: allowance.recorded_usage(), recorded: None })
    }

    /// The upper bound of a call's cost. An answer without a limit of its own is limited by the remaining budget.
    fn bound_cost(&self, request: &mut GenerateRequest) -> Result<Amount, StepFailure> {
        let prompt = request.messages.bound_tokens();
        let model = &self.effects.model;
        let wanted = request.options.max_tokens.map(u64::from);
        let left = self.ledger.remaining_tokens(&self.limits).map(|left| left.saturating_sub(prompt));
        let answer = match (wanted, left) {
            (Some(wanted), _) => wanted,
            (None, Some(left)) => left.min(model.default_max_tokens(&request.model)).max(1),
            (None, None) => model.default_max_tokens(&request.model),
        };
        request.options.max_tokens = Some(u32::try_from(answer).unwrap_or(u32::MAX));
        let micro_usd = match (self.limits.micro_usd, model.find_price(&request.model)) {
            (None, _) => 0,
            (Some(_), Some(price)) => price.compute_cost(prompt, answer),
            (Some(_), None) => {
                let message = format!(
                    "the price of {} is unknown, so a money budget cannot be enforced; use a token budget",
                    request.model
                );
                return Err(StepFailure::new(Code::PriceUnknown, message));
            }
        };
        Ok(Amount { tokens: prompt + answer, micro_usd })
    }
}

/// A failure that ends the run, whatever the error mode of the step is.
fn over_budget(error: StepFailure, path: Path) -> EffectFailure {
    EffectFailure::Interrupt(Interrupt::Limit(Status::BudgetExceeded, error, path))
}

/// The failure of a model call. A quota of money that cannot be enforced is like a budget: no attempt can succeed.
fn classify_failure(failed: FailedAttempt, path: Path) -> EffectFailure {
    match failed.error.code.category() {
        Category::OverBudget => over_budget(failed.error, path),
        _ => EffectFailure::Step(failed),
    }
}

/// The usage of a model call, also of one that failed.
fn find_usage(answered: &Result<GenerateReply, FailedAttempt>) -> Option<&Usage> {
    match answered {
        Ok(generated) => Some(&generated.usage),
        Err(failed) => failed.usage.as_ref(),
    }
}

/// A model's answer as an output: tool calls and text if tools were available, JSON if a schema was given, otherwise
/// text.
fn answer_outcome(generated: GenerateReply, request: &GenerateRequest) -> EffectOutcome {
    let usage = Some(generated.usage);
    let text = generated.text;
    let output = if !request.tools.is_empty() {
        let calls = serde_json::to_string(&generated.tool_calls).unwrap_or_default();
        let calls = flowloom_core::json::parse_value(&calls).unwrap_or_default();
        let text = text.map_or(Value::Null, Value::from);
        Some(Value::map([("text", text), ("tool_calls", calls)]))
    } else if let Purpose::ObjectOr(field) = &request.purpose {
        text.map(|text| read_object(&text).unwrap_or_else(|| Value::map([(&**field, text.into())])))
    } else if request.schema.is_some() && request.purpose != Purpose::Judged {
        text.and_then(|text| flowloom_core::json::read_lenient(&text))
    } else {
        text.map(Value::from)
    };
    EffectOutcome { output, usage, memory: Vec::new(), response: generated.response }
}

/// The JSON object from the first opening to the last closing brace of a text; `None` if that is no object.
fn read_object(text: &str) -> Option<Value> {
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    let read = flowloom_core::json::parse_value(text.get(start..=end)?).ok()?;
    read.as_map().is_some().then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_need_not_match_is_an_object_or_a_text() {
        let request = GenerateRequest {
            model: "m".to_owned(),
            messages: Vec::new().into(),
            tools: Vec::new(),
            schema: None,
            options: Default::default(),
            purpose: Purpose::ObjectOr("raw".into()),
        };
        let cases = [
            ("plain words", r#"{"raw":"plain words"}"#),
            ("Sure: ```json\n{\"a\": {\"b\": 1}}\n```", r#"{"a":{"b":1}}"#),
            (r#"{"a":1} {"b":2}"#, r#"{"raw":"{\"a\":1} {\"b\":2}"}"#),
            ("[1]", r#"{"raw":"[1]"}"#),
            ("} {", r#"{"raw":"} {"}"#),
            ("", r#"{"raw":""}"#),
        ];
        for (text, expected) in cases {
            let reply = GenerateReply { text: Some(text.to_owned()), ..GenerateReply::default() };
            let output = answer_outcome(reply, &request).output.expect("an output");
            assert_eq!(flowloom_core::json::write_json(&output), expected, "{text}");
        }
    }
}
