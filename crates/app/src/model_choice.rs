//! A choice of a model, as people and clients give it: `provider:model`, or `name=provider:model` for an alias.

use thiserror::Error;

/// The alias and the model of a choice such as `--model`: `p:m` has no alias, `name=p:m` has one.
pub fn split_model_choice(given: &str) -> (Option<&str>, &str) {
    given.split_once('=').map_or((None, given), |(alias, model)| (Some(alias), model))
}

/// Why a text is no choice of a model.
#[derive(Debug, Error)]
#[error("expected a model such as openai:gpt-4.1-mini, or NAME=MODEL for the steps that name NAME; found {0:?}")]
pub struct InvalidModelChoice(String);

/// A choice of a model that a person or a client gives. Fails if the alias or the model is empty.
pub fn check_model_choice(given: &str) -> Result<String, InvalidModelChoice> {
    let (alias, model) = split_model_choice(given);
    let is_blank = |text: &str| text.trim().is_empty();
    match alias.is_some_and(is_blank) || is_blank(model) {
        true => Err(InvalidModelChoice(given.to_owned())),
        false => Ok(given.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_names_a_model() {
        for good in ["openai:m", "name=openai:m", "*=local:m", "name=a=b"] {
            assert_eq!(check_model_choice(good).ok().as_deref(), Some(good));
        }
        for bad in ["", " ", "=openai:m", "name=", "*= "] {
            assert!(check_model_choice(bad).is_err(), "{bad:?}");
        }
    }
}
