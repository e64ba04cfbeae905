//! Functions by id (`ns::name`): the registry, and which agent may call what.
//!
//! Built-in functions are in `builtin`, with files in `user_files`, configured HTTP endpoints in `endpoint`. Functions that need the
//! engine itself (`agent::`, `memory::`, `workflow::`) are in the interpreter, or added as native functions.

mod arguments;
mod builtin;
mod capabilities;
mod endpoint;
pub(crate) mod error;
mod file_sizes;
mod files;
mod search;
mod user_files;

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::effect::CallRequest;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::EffectClass;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{ChildEffects, EffectContext, EffectFuture, Functions};

pub use builtin::find_request_method;
pub use capabilities::Capabilities;
pub use endpoint::HttpFunction;
pub use search::{SearchProvider, WebSearch};
pub use user_files::{FileLimit, UserFiles};

use crate::error::ToolError;
use crate::http::HttpClient;
use crate::mcp::McpServer;
use crate::scrape::PageScraper;
use builtin::BuiltinFunction;
use error::FunctionError;

/// A function implemented in Rust, here or by the program that uses this crate.
pub trait NativeFunction: Send + Sync {
    /// Effect class of a call.
    fn effect_class(&self) -> EffectClass {
        EffectClass::AtMostOnce
    }

    /// Whether messages name it: definitions may call it.
    fn is_public(&self) -> bool {
        true
    }

    /// Calls the function. `below` runs child effects of the calling step. Fails if its arguments do not fit, or with
    /// its own error.
    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value>;
}

/// A function added by the configuration.
#[derive(Clone)]
pub enum FunctionConfig {
    /// An HTTP endpoint.
    Http(HttpFunction),
    /// Rust code.
    Native(Arc<dyn NativeFunction>),
}

/// All functions that steps can call by id.
pub struct FunctionRegistry {
    client: Arc<HttpClient>,
    scraper: PageScraper,
    files: Option<UserFiles>,
    search: Option<WebSearch>,
    configured: BTreeMap<String, FunctionConfig>,
    servers: BTreeMap<String, Arc<McpServer>>,
    capabilities: Capabilities,
}

impl FunctionRegistry {
    /// The built-in functions, with `client` for sending, no folder for files and no grants.
    pub fn new(client: Arc<HttpClient>) -> FunctionRegistry {
        let scraper = PageScraper::new(client.clone());
        let capabilities = Capabilities::default();
        let (configured, servers) = (BTreeMap::new(), BTreeMap::new());
        FunctionRegistry { client, scraper, files: None, search: None, configured, servers, capabilities }
    }

    /// Allows the file functions to use these files (`[files]`).
    pub fn with_files(mut self, files: UserFiles) -> FunctionRegistry {
        self.files = Some(files);
        self
    }

    /// Sets the search engine for `tool::web_search`.
    pub fn with_search(mut self, search: WebSearch) -> FunctionRegistry {
        self.search = Some(search);
        self
    }

    /// Sets the functions that agents may call.
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> FunctionRegistry {
        self.capabilities = capabilities;
        self
    }

    /// Adds a function, replacing any other with that id, including built-in ones.
    pub fn with_function(mut self, id: impl Into<String>, function: FunctionConfig) -> FunctionRegistry {
        self.configured.insert(id.into(), function);
        self
    }

    /// Adds the tools of an MCP server as `NAME::tool`. A configured function with the same id takes precedence.
    pub fn with_server(mut self, server: Arc<McpServer>) -> FunctionRegistry {
        self.servers.insert(server.name().to_owned(), server);
        self
    }

    /// The MCP server and the name of its tool that `function` refers to.
    fn find_tool<'a>(&self, function: &'a str) -> Option<(&McpServer, &'a str)> {
        let (server, tool) = function.split_once("::")?;
        Some((&**self.servers.get(server)?, tool))
    }

    /// All ids that can be called without asking an MCP server, sorted.
    pub fn function_ids(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.configured.keys().map(String::as_str).collect();
        names.extend(BuiltinFunction::ALL.iter().map(|builtin| builtin.id()));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether `function` can be called without asking an MCP server.
    pub fn is_known(&self, function: &str) -> bool {
        self.configured.contains_key(function) || BuiltinFunction::from_id(function).is_some()
    }

    fn unknown_function(&self, function: &str) -> FunctionError {
        let is_public = |id: &&str| match self.configured.get(*id) {
            Some(FunctionConfig::Native(native)) => native.is_public(),
            Some(FunctionConfig::Http(_)) | None => true,
        };
        let known: Vec<&str> = self.function_ids().into_iter().filter(is_public).collect();
        FunctionError::Unknown {
            function: function.to_owned(),
            similar: find_similar_name(function, known.iter().copied()).map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Calls a function that is not native.
    async fn call_tool(&self, request: &CallRequest, context: &EffectContext) -> Result<Value, ToolError> {
        if let Some(FunctionConfig::Http(http)) = self.configured.get(&*request.function) {
            return http.call_endpoint(&self.client, request, context).await;
        }
        if let Some((server, tool)) = self.find_tool(&request.function) {
            return server.call_tool(tool, &request.payload, context).await;
        }
        match BuiltinFunction::from_id(&request.function) {
            Some(builtin) => builtin.call_function(self, request, context).await,
            None => Err(self.unknown_function(&request.function).into()),
        }
    }
}

impl Functions for FunctionRegistry {
    fn effect_class(&self, request: &CallRequest) -> EffectClass {
        match self.configured.get(&*request.function) {
            Some(FunctionConfig::Http(http)) => http.effect.unwrap_or_else(|| self.client.class_of_call(&http.url)),
            Some(FunctionConfig::Native(native)) => native.effect_class(),
            None => match self.find_tool(&request.function) {
                Some((server, tool)) => server.effect_class(tool),
                None => BuiltinFunction::from_id(&request.function)
                    .map_or(EffectClass::AtMostOnce, |known| known.effect_class(request, &self.client)),
            },
        }
    }

    fn check_agent(&self, agent: &str) -> Result<(), StepFailure> {
        Ok(self.capabilities.check_agent(agent).map_err(ToolError::from)?)
    }

    fn check_permission(&self, agent: &str, function: &str) -> Result<(), StepFailure> {
        Ok(self.capabilities.check_permission(agent, function).map_err(ToolError::from)?)
    }

    fn call_function<'a>(
        &'a self,
        request: &'a CallRequest,
        context: &'a EffectContext,
        below: &'a dyn ChildEffects,
    ) -> EffectFuture<'a, Value> {
        match self.configured.get(&*request.function) {
            Some(FunctionConfig::Native(native)) => match request.payload.marked.as_ref() {
                // A workflow would receive the name of the secret as text, and send it as it is.
                Some(_) => Box::pin(async { Err(secret_in_input(request)) }),
                None => native.call_function(request, context, below),
            },
            Some(FunctionConfig::Http(_)) | None => Box::pin(async { Ok(self.call_tool(request, context).await?) }),
        }
    }
}

/// Fails with the failure of every call of a built-in function, if `[search]` or `[files]` is not configured and it needs that.
pub fn check_settings(function: &str, has_search: bool, has_files: bool) -> Result<(), StepFailure> {
    let built_in = BuiltinFunction::from_id(function);
    let checked = built_in.map_or(Ok(()), |built_in| built_in.check_settings(has_search, has_files));
    Ok(checked.map_err(ToolError::from)?)
}

/// The failure of a function that cannot fill in the secrets of its input.
fn secret_in_input(request: &CallRequest) -> StepFailure {
    let (function, name) = (&request.function, request.payload.first_secret().unwrap_or_default());
    let message = format!(
        "the secret {name} cannot be an input of {function}: only functions that send requests fill secrets in"
    );
    StepFailure::new(Code::SecretPlace, message)
}
