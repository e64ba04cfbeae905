//! HTTP requests as a plan describes them; `effect` builds the sent request.

use crate::expr::{Data, Template};

/// A request in a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSpec {
    /// The method; empty means GET.
    pub method: Template,
    /// The URL.
    pub url: Template,
    /// Header rows in order. The last of rows with identical names wins; rows whose names differ in case are joined.
    pub headers: Vec<(Template, Template)>,
    /// The body; sent with POST, PUT and PATCH only.
    pub body: BodySpec,
    /// Whether the URL and the headers are those of `[tools]` in the configuration, with a path below it.
    pub uses_tool_host: bool,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum BodySpec {
    /// Text that holds JSON. It is repaired if inserted values broke it; an error if that fails.
    JsonText(Template),
    /// JSON built from a value.
    JsonValue(Data),
    /// Form fields in order.
    Form(Vec<(Template, Template)>),
    /// Text as it is.
    Text(Template),
    /// Nothing.
    None,
}
