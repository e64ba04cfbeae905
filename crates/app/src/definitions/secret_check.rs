//! Warnings about the secrets that a definition names: what the configuration does not bind, or does not permit.

use std::collections::BTreeSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};

use flowloom_formats::flow;

use super::source::LoadedDefinition;
use crate::config::Config;

/// How definitions write a secret: the text before the name, and the text after it.
const NOTATIONS: [(&str, &str); 2] = [("${secret.", "}"), ("{{secret.", "}}")];

/// Maximum number of secrets of a definition that are checked.
const MAX_CHECKED_SECRETS: usize = 100;

/// Warnings about the secrets of a definition, the first use of each: `tenant` is the user whose definition it is,
/// `None` if it is the operator's own.
pub(super) fn check_secrets(config: &Config, source: &LoadedDefinition, tenant: Option<&str>) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for (file, bytes) in source.files() {
        let Ok(text) = std::str::from_utf8(bytes) else { continue };
        if source.compiled.format == Some(flow::FORMAT) && flow::declares_variable(text, "secret") {
            continue;
        }
        for (start, name) in find_secrets(text) {
            if known.len() >= MAX_CHECKED_SECRETS || !known.insert(name) {
                continue;
            }
            let span = Span { start, length: name.len() };
            found.extend(check_secret(config, name, tenant).map(|problem| problem.to_diagnostic(file, span)));
        }
    }
    found
}

/// Whether the configuration binds a secret to hosts.
pub(crate) fn is_bound(config: &Config, name: &str) -> bool {
    config.secrets.get(name).is_some_and(|settings| !settings.hosts.is_empty())
}

/// A problem with the use of a secret.
struct SecretProblem {
    code: Code,
    message: String,
    help: String,
}

impl SecretProblem {
    fn to_diagnostic(&self, file: &str, span: Span) -> Diagnostic {
        Diagnostic::new_warning(self.code, file, span, self.message.clone()).with_help(&self.help)
    }
}

fn check_secret(config: &Config, name: &str, tenant: Option<&str>) -> Option<SecretProblem> {
    let settings = config.secrets.get(name);
    if let Some(user) = tenant
        && !settings.is_some_and(|settings| settings.users.iter().any(|listed| listed == user))
    {
        return Some(SecretProblem {
            code: Code::SecretDenied,
            message: format!("the secret {name} is not available to definitions of the user {user}"),
            help: format!("the operator can add the user to `users` of [secrets.{name}]"),
        });
    }
    (!is_bound(config, name)).then(|| SecretProblem {
        code: Code::SecretUnbound,
        message: format!("the secret {name} is bound to no host, so this definition may send it anywhere"),
        help: format!("list its hosts in the configuration: [secrets.{name}] hosts = [\"api.example\"]"),
    })
}

/// The secrets in a text: the position and the name of each use.
pub(super) fn find_secrets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    NOTATIONS.into_iter().flat_map(move |(before, after)| {
        text.match_indices(before).filter_map(move |(at, _)| {
            let start = at + before.len();
            let rest = &text[start..];
            let name = &rest[..rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()];
            let is_closed = rest[name.len()..].starts_with(after);
            (is_closed && !name.is_empty()).then_some((start, name))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_both_notations() {
        let text = "a ${secret.SHOP} b {{secret.KEY_2}} c ${secret.} {{secret.a b}} ${secret.open";
        assert_eq!(find_secrets(text).collect::<Vec<_>>(), [(11, "SHOP"), (28, "KEY_2")]);
    }

    #[test]
    fn a_secret_without_hosts_is_a_warning() {
        let config = Config::load(crate::config::Overrides::default()).expect("the defaults");
        let bytes = b"{\"url\": \"${secret.SHOP} ${secret.SHOP}\"}".to_vec();
        let files = [("flow.json".to_owned(), bytes)].into();
        let source = crate::definitions::source::Loader::new(&config).compile_files("flow.json", files);
        let warnings = check_secrets(&config, &source, None);
        assert_eq!(warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::SecretUnbound]);
        let denied = check_secrets(&config, &source, Some("ann"));
        assert_eq!(denied.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::SecretDenied]);
    }

    #[test]
    fn a_text_that_says_secret_hides_no_secret() {
        let config = Config::load(crate::config::Overrides::default()).expect("the defaults");
        let warnings = |variable: &str| {
            let text = format!(
                r#"{{"name": "secret", "description": "d", "steps": [
                    {{"type": "start", "config": {{"variables": [{{"name": "{variable}", "value": "secret"}}]}}}},
                    {{"type": "apiCall", "config": {{"url": "http://a.test/?q=${{secret.SHOP}}", "method": "GET"}}}}]}}"#
            );
            let files = [("flow.json".to_owned(), text.into_bytes())].into();
            let source = crate::definitions::source::Loader::new(&config).compile_files("flow.json", files);
            check_secrets(&config, &source, None).len()
        };
        assert_eq!((warnings("other"), warnings("secret")), (1, 0));
    }
}
