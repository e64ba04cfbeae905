//! The causes of an error: a chain of errors, of which a run records only the first.

use std::error::Error;

use flowloom_core::category::Category;
use flowloom_core::code::Code;

/// The text of an error and of its causes, outermost first, without repetitions.
pub fn format_chain(error: &dyn Error) -> String {
    let mut texts = vec![error.to_string()];
    texts.extend(std::iter::successors(error.source(), |cause| (*cause).source()).map(ToString::to_string));
    texts.dedup();
    texts.join(": ")
}

/// Writes an error that becomes a step's error to the log, with its causes. An error without a cause is not logged: the
/// run records all of it. Damage and other failures of the database need a person; an outage is reported when it begins
/// (`outage_log.rs`). Neither the error nor a cause may contain a secret.
pub fn log_causes(code: Code, error: &dyn Error) {
    let Some(cause) = error.source().map(format_chain) else { return };
    match code.category() {
        Category::DatabaseFailed => tracing::error!(%code, cause, "{error}"),
        _ if code.is_store_outage() => tracing::debug!(%code, cause, "{error}"),
        _ => tracing::info!(%code, cause, "{error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_ref().map(|cause| &**cause as _)
        }
    }

    #[test]
    fn every_cause_is_listed_once() {
        let stack = |names: &[&'static str]| {
            names.iter().rev().fold(None, |cause, name| Some(Box::new(Layer(name, cause)))).unwrap()
        };
        assert_eq!(format_chain(&*stack(&["call", "connect", "connect", "refused"])), "call: connect: refused");
        assert_eq!(format_chain(&*stack(&["call"])), "call");
    }
}
