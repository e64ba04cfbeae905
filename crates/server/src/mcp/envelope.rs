//! Checks that the body of a request is a JSON-RPC message. The protocol's library answers with a status for the wrong
//! media type to everything that it cannot read.

use rmcp::model::{CallToolRequestParams, ErrorCode, ErrorData, RequestId};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A message as JSON-RPC has it, before its method is looked at.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(default, deserialize_with = "read_member")]
    id: Option<Value>,
    #[serde(default)]
    method: Value,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "read_member")]
    result: Option<Value>,
    #[serde(default, deserialize_with = "read_member")]
    error: Option<Value>,
}

/// A member that is present, even if it is null.
fn read_member<'de, D: Deserializer<'de>>(member: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(member).map(Some)
}

/// The method of the message in a body; `None` for a response. Fails with the error response if the body is no message.
pub(crate) fn read_method(body: &str) -> Result<Option<String>, Value> {
    let value: Value = serde_json::from_str(body)
        .map_err(|error| error_response(&Value::Null, ErrorCode::PARSE_ERROR, &format!("not JSON: {error}")))?;
    if value.is_array() {
        let message = "batches are not supported; send each message in a request of its own";
        return Err(error_response(&Value::Null, ErrorCode::INVALID_REQUEST, message));
    }
    let Ok(message) = serde_json::from_value::<Envelope>(value) else {
        return Err(error_response(&Value::Null, ErrorCode::INVALID_REQUEST, "a message is a JSON object"));
    };
    match message.find_problem() {
        Some((code, why)) => Err(error_response(message.valid_id(), code, &why)),
        None => Ok(message.method.as_str().map(str::to_owned)),
    }
}

/// The version of the protocol that the message in a body asks for, if it opens a session.
pub(crate) fn read_requested_version(body: &str) -> Option<String> {
    let message: Envelope = serde_json::from_str(body).ok()?;
    Some(message.params.get("protocolVersion")?.as_str()?.to_owned())
}

impl Envelope {
    /// The id; null if there is none that a request can have.
    fn valid_id(&self) -> &Value {
        self.id.as_ref().filter(|id| RequestId::deserialize(*id).is_ok()).unwrap_or(&Value::Null)
    }

    fn find_problem(&self) -> Option<(ErrorCode, String)> {
        let invalid = |why: &str| Some((ErrorCode::INVALID_REQUEST, why.to_owned()));
        if self.jsonrpc != "2.0" {
            return invalid("\"jsonrpc\" must be \"2.0\"");
        }
        // A client whose request could not be read has no id for the error.
        let is_unnamed_error = self.method.is_null() && self.error.is_some() && self.id == Some(Value::Null);
        if self.id.is_some() && self.valid_id().is_null() && !is_unnamed_error {
            return invalid("\"id\" must be a string or an integer; a notification has none");
        }
        let has_outcome = self.result.is_some() || self.error.is_some();
        let Some(method) = self.method.as_str() else {
            return match self.method.is_null() && has_outcome {
                true => self.find_response_problem().and_then(invalid),
                false => invalid("\"method\" must be a string"),
            };
        };
        if has_outcome {
            return invalid("a message with a \"method\" has neither \"result\" nor \"error\"");
        }
        let wrong_params = |why: String| Some((ErrorCode::INVALID_PARAMS, why));
        if !matches!(self.params, Value::Null | Value::Object(_)) {
            return wrong_params("\"params\" must be an object".to_owned());
        }
        if method == "tools/call"
            && let Err(error) = CallToolRequestParams::deserialize(&self.params)
        {
            return wrong_params(format!("the parameters of tools/call: {error}"));
        }
        None
    }

    fn find_response_problem(&self) -> Option<&'static str> {
        match (&self.result, &self.error) {
            (Some(_), Some(_)) => Some("a response has a \"result\" or an \"error\", not both"),
            (Some(_), None) if self.id.is_none() => Some("a response needs the \"id\" of its request"),
            (_, Some(error)) if ErrorData::deserialize(error).is_err() => {
                Some("\"error\" must be an object with a \"code\" and a \"message\"")
            }
            _ => None,
        }
    }
}

fn error_response(id: &Value, code: ErrorCode, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}})
}

#[cfg(test)]
mod tests {
    use rmcp::model::ClientJsonRpcMessage;

    use super::*;

    #[test]
    fn messages_pass_and_everything_else_has_the_error_that_json_rpc_gives_it() {
        let code = |body: &str| read_method(body).err().map(|problem| problem["error"]["code"].clone());
        for message in [
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#,
            r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
            r#"{"jsonrpc": "2.0", "id": "a", "result": {}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}"#,
            r#"{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "no"}}"#,
            r#"{"jsonrpc": "2.0", "id": 1.0, "method": "tools/list"}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": {"n": 1}}}"#,
        ] {
            assert_eq!(code(message), None, "{message}");
            assert!(serde_json::from_str::<ClientJsonRpcMessage>(message).is_ok(), "the library takes {message}");
        }
        for (message, wanted) in [
            ("{", -32700),
            ("", -32700),
            ("[]", -32600),
            ("1", -32600),
            (r#"{"id": 1, "method": "tools/list"}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "tools/list"}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 18446744073709551615, "method": "tools/list"}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": null, "result": {}}"#, -32600),
            (r#"{"jsonrpc": "2.0", "result": {}}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 1, "error": "no"}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "no"}}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "result": {}}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 7}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": 3}"#, -32602),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}"#, -32602),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": 1}}"#, -32602),
        ] {
            assert_eq!(code(message), Some(wanted.into()), "{message}");
        }
        let problem = read_method(r#"{"jsonrpc": "2.0", "id": 7, "method": 7}"#).expect_err("a problem");
        assert_eq!(problem["id"], 7, "the answer names the request");
        let problem = read_method(r#"{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}"#).expect_err("a problem");
        assert_eq!(problem["id"], Value::Null, "an id that no request can have is not repeated");
    }
}
