//! HTTP requests as a plan describes them; `effect` builds what is sent.

use crate::expr::{Data, Template};

/// A request of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSpec {
    /// The method; empty means GET.
    pub method: Template,
    /// The address.
    pub url: Template,
    /// Header rows in order. Of rows spelled alike the last one stands; rows that differ in case are joined.
    pub headers: Vec<(Template, Template)>,
    /// The body; sent with POST, PUT and PATCH only.
    pub body: Body,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Text that holds JSON; mended if pasted values broke it, an error if it cannot be.
    JsonText(Template),
    /// JSON written as a value.
    JsonValue(Data),
    /// Form fields in order.
    Form(Vec<(Template, Template)>),
    /// Text as it is.
    Text(Template),
    /// Nothing.
    None,
}
