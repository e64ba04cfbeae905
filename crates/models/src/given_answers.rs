//! Answers that are given in place of those of models: a test has them.

use std::collections::VecDeque;

use flowloom_core::Value;
use parking_lot::Mutex;

/// Answers in the order of the calls, in the form of scripted models.
pub(crate) struct GivenAnswers {
    answers: Mutex<VecDeque<Value>>,
    /// Whether models are asked when the answers are used up.
    pub(crate) asks_models_then: bool,
}

impl GivenAnswers {
    pub(crate) fn new(answers: Vec<Value>, asks_models_then: bool) -> GivenAnswers {
        GivenAnswers { answers: Mutex::new(answers.into()), asks_models_then }
    }

    /// The next answer; `None` if all are used.
    pub(crate) fn take_next(&self) -> Option<Value> {
        self.answers.lock().pop_front()
    }

    /// The number of answers that no call has taken.
    pub(crate) fn count_unused(&self) -> usize {
        self.answers.lock().len()
    }
}
