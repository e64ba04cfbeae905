//! Checks that the body of a request is a JSON-RPC message. The protocol's library answers with a status for the wrong
//! media type to everything that it cannot read.

use rmcp::model::{CallToolRequestParams, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

/// A message as JSON-RPC has it, before its method is looked at.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    method: Value,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
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
        Some((code, why)) => Err(error_response(&message.id, code, &why)),
        None => Ok(message.method.as_str().map(str::to_owned)),
    }
}

/// The version of the protocol that the message in a body asks for, if it opens a session.
pub(crate) fn read_requested_version(body: &str) -> Option<String> {
    let message: Envelope = serde_json::from_str(body).ok()?;
    Some(message.params.get("protocolVersion")?.as_str()?.to_owned())
}

impl Envelope {
    fn find_problem(&self) -> Option<(ErrorCode, String)> {
        let invalid = |why: &str| Some((ErrorCode::INVALID_REQUEST, why.to_owned()));
        if self.jsonrpc != "2.0" {
            return invalid("\"jsonrpc\" must be \"2.0\"");
        }
        if !matches!(self.id, Value::Null | Value::String(_) | Value::Number(_)) {
            return invalid("\"id\" must be a string or a number");
        }
        let Some(method) = self.method.as_str() else {
            let is_response = self.method.is_null() && (self.result.is_some() || self.error.is_some());
            return if is_response { None } else { invalid("\"method\" must be a string") };
        };
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
}

fn error_response(id: &Value, code: ErrorCode, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_and_everything_else_has_the_error_that_json_rpc_gives_it() {
        let code = |body: &str| read_method(body).err().map(|problem| problem["error"]["code"].clone());
        for message in [
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#,
            r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
            r#"{"jsonrpc": "2.0", "id": "a", "result": {}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": {"n": 1}}}"#,
        ] {
            assert_eq!(code(message), None, "{message}");
        }
        for (message, wanted) in [
            ("{", -32700),
            ("", -32700),
            ("[]", -32600),
            ("1", -32600),
            (r#"{"id": 1, "method": "tools/list"}"#, -32600),
            (r#"{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}"#, -32600),
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
    }
}
