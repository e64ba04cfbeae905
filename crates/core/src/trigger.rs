//! [`RunTrigger`]: the call, schedule or webhook that started a run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The call, schedule or webhook that started a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTrigger {
    /// Name of the interface: `api`, `schedule`. The programs that start runs define the names.
    pub kind: Cow<'static, str>,
    /// The id of the schedule or of the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The id of the call, if it was made under an idempotency key. The run is created only while the key is reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Whether the caller asked for an answer in the background, which is read later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

impl RunTrigger {
    /// The part that lists of runs show and select by. The rest is in the event of the creation only.
    pub fn listed_part(&self) -> RunTrigger {
        RunTrigger { kind: self.kind.clone(), id: self.id.clone(), call: None, background: false }
    }
}
