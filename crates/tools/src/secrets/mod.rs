//! Fills in the values of secrets, encoded as their place in a request requires, and redacts them from everything that
//! comes back.
//!
//! The [`Secrets`] trait supplies the values and decides who may use them where; this module does not know where they
//! are stored. Encodings are in `encoding`, one request's secrets in `used`, redaction in [`redactor`].

mod encoding;
pub mod redactor;
mod used;

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::rich::Rich;
use flowloom_runtime::effects::DefinitionIdentity;

use crate::egress::HostPort;
pub(crate) use encoding::SecretEncoding;
pub use used::Redacted;
pub(crate) use used::UsedSecrets;

/// A source of secret values.
pub trait Secrets: Send + Sync {
    /// The value of the secret `name` for a purpose. Fails if it is not set, or not meant for the purpose.
    fn read_secret(&self, name: &str, purpose: &SecretPurpose<'_>) -> Result<String, SecretError>;
}

impl Secrets for BTreeMap<String, String> {
    /// Every purpose is permitted.
    fn read_secret(&self, name: &str, _purpose: &SecretPurpose<'_>) -> Result<String, SecretError> {
        self.get(name).cloned().ok_or_else(|| SecretError::NotSet { name: name.to_owned() })
    }
}

/// The user of a secret, and the destination of its value.
#[derive(Clone, Copy, Debug)]
pub struct SecretPurpose<'a> {
    /// The requester who names the secret.
    pub requester: Requester<'a>,
    /// Where the value goes.
    pub destination: Destination<'a>,
}

/// The party that names a secret.
#[derive(Clone, Copy, Debug)]
pub enum Requester<'a> {
    /// The operator's configuration.
    Configuration,
    /// A definition.
    Definition(&'a DefinitionIdentity),
}

/// Where the value of a secret goes.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// A connection to a host.
    Host(&'a HostPort),
    /// A program or a file of this machine.
    Machine,
}

/// Why a secret may not be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It has no value.
    #[error("the secret {name} is not set; set FLOWLOOM_SECRET_{name}")]
    NotSet {
        /// Its name.
        name: String,
    },
    /// It is bound to other hosts.
    #[error(
        "the secret {name} may not be sent to {destination}: it is bound to {}; to allow it, add the host to `hosts` of \
         [secrets.{name}]", hosts.join(", ")
    )]
    OtherHost {
        /// Its name.
        name: String,
        /// The host and port, or what the destination is.
        destination: String,
        /// The hosts that it is bound to.
        hosts: Vec<String>,
    },
    /// It is bound to no host, and the definition is a tenant's, or a caller with a key chose values in it.
    #[error(
        "the secret {name} is bound to no host, so it is available neither to definitions of users nor to a run in which \
         a caller chose more than the inputs (a step alone, a fork with other values, the memory or files that it reads); the \
         operator can set `hosts` of [secrets.{name}]"
    )]
    NoHosts {
        /// Its name.
        name: String,
    },
    /// The definition is of a tenant whom the secret does not list.
    #[error(
        "the secret {name} is not available to definitions of the user {user}; the operator can add the user to `users` \
         of [secrets.{name}]"
    )]
    OtherUser {
        /// Its name.
        name: String,
        /// The user.
        user: String,
    },
    /// Webhooks may not be signed with it, or not those of a user.
    #[error("{}", describe_webhook_refusal(name, user.as_deref()))]
    NotForWebhooks {
        /// Its name.
        name: String,
        /// The user; `None` for the operator's own webhooks.
        user: Option<String>,
    },
    /// It is bound to other workflows.
    #[error(
        "the secret {name} is not available to the workflow {workflow}: it is bound to {}; the operator can add the \
         workflow to `workflows` of [secrets.{name}]", workflows.join(", ")
    )]
    OtherWorkflow {
        /// Its name.
        name: String,
        /// The workflow.
        workflow: String,
        /// The workflows that it is bound to.
        workflows: Vec<String>,
    },
}

impl SecretError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            SecretError::NotSet { .. } => Code::SecretUnknown,
            SecretError::OtherHost { .. }
            | SecretError::NoHosts { .. }
            | SecretError::OtherUser { .. }
            | SecretError::NotForWebhooks { .. }
            | SecretError::OtherWorkflow { .. } => Code::SecretDenied,
        }
    }
}

/// Why webhooks may not be signed with a secret. The operator's own need no user.
fn describe_webhook_refusal(name: &str, user: Option<&str>) -> String {
    let set = format!("the operator can set `webhooks = true` in [secrets.{name}]");
    match user {
        Some(user) => {
            format!("webhooks of the user {user} may not use the secret {name}; {set} and add the user to its `users`")
        }
        None => format!("webhooks may not use the secret {name}; {set}"),
    }
}

/// Parses configured text in which `${secret.NAME}` stands for a secret.
pub fn parse_secret_text(text: &str) -> Rich {
    let mut rich = Rich::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${secret.") {
        let Some((name, tail)) = after.split_once('}') else { break };
        rich.push_text(before);
        rich.push_secret(name);
        rest = tail;
    }
    rich.push_text(rest);
    rich
}
