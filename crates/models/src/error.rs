//! The errors of models, and how each becomes the error of a step.

use std::io;
use std::path::PathBuf;

use flowloom_core::error::Retry;
use flowloom_core::json::JsonError;
use flowloom_core::{Code, StepFailure};
use flowloom_runtime::causes::log_causes;
use flowloom_runtime::schema::CompileSchemaError;

use crate::catalog::LOCAL_EMBEDDING_MODEL;
use crate::remote::ProviderCallError;

/// Why a model has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model cannot be used.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The call of a provider failed.
    #[error(transparent)]
    Provider(#[from] Box<ProviderCallError>),
    /// The inference engine failed.
    #[error(transparent)]
    Engine(#[from] StepFailure),
    /// The file with the answers of a scripted model cannot be used.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The JSON Schema of the answer cannot be used.
    #[error("the JSON Schema is not valid: {0}")]
    InvalidSchema(#[from] SchemaError),
    /// The second answer does not match the JSON Schema either.
    #[error("the model's answer does not match the requested JSON: {problem}; it starts with: {answer_start}")]
    AnswerNotJson {
        /// The validation errors.
        problem: String,
        /// The start of the answer.
        answer_start: String,
    },
    /// The answers that were given in place of those of models are used up.
    #[error("there is no answer left")]
    NoAnswerGiven,
    /// An embedding model did not return an embedding for each text.
    #[error("the model returned fewer embeddings than were requested")]
    FewerEmbeddings,
}

/// Why a model cannot be used. Nothing has been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No model is named, and there is no default.
    #[error(
        "no model was chosen: name one as provider:model, set default_model in flowloom.toml, or fetch the \
         small local one with `flowloom models pull`"
    )]
    NoModelChosen,
    /// A name ends after the provider.
    #[error("`{name}` does not name a model; write {provider}:MODEL")]
    NoModelInName {
        /// The name.
        name: String,
        /// The provider that it names.
        provider: String,
    },
    /// A name has no provider, and none is known for it.
    #[error("cannot tell the provider of the model `{name}`; did you mean `{guess}`?")]
    UnclearProvider {
        /// The name.
        name: String,
        /// The name that is probably meant.
        guess: String,
    },
    /// A name has a provider that is not known.
    #[error("unknown model provider `{provider}`; did you mean `{guess}`?")]
    MisspelledProvider {
        /// The provider.
        provider: String,
        /// The name of a model that is probably meant.
        guess: String,
    },
    /// There is no provider of this name.
    #[error("unknown model provider `{provider}`; the providers are {}", known.join(", "))]
    UnknownProvider {
        /// The name.
        provider: String,
        /// The names of all providers.
        known: Vec<String>,
    },
    /// A recorded or configured name is not complete.
    #[error("the model `{model}` has no provider; write provider:model")]
    NoProviderInName {
        /// The name.
        model: String,
    },
    /// The key of a provider is not set.
    #[error("{provider} needs a key: set the environment variable {variable}")]
    KeyMissing {
        /// The provider.
        provider: String,
        /// The environment variable of its key.
        variable: String,
    },
    /// The base URL of a provider is wrong.
    #[error("the base URL of {provider} is not an http or https URL")]
    InvalidBaseUrl {
        /// The provider.
        provider: String,
    },
    /// The model has no embeddings.
    #[error(
        "{model} cannot embed text: name a model of a provider that speaks OpenAI's protocol, or \
         local:{LOCAL_EMBEDDING_MODEL}"
    )]
    CannotEmbed {
        /// The model, as `provider:model`.
        model: String,
    },
    /// A definition names a file as its model.
    #[error(
        "the definition of a user cannot name a file as its model: {model}; name the file in the configuration, as default_model or \
         as the target of a name in [models.alias]"
    )]
    FileNamed {
        /// The model, as `provider:model`.
        model: String,
    },
    /// The scripted model has no file.
    #[error("`scripted:` needs a file; write scripted:PATH")]
    NoScriptPath,
    /// There is no file of this local model.
    #[error("the model file {} is missing{}", file.display(), missing_advice(*can_be_pulled, present))]
    FileMissing {
        /// The file.
        file: PathBuf,
        /// Whether `flowloom models pull` downloads it.
        can_be_pulled: bool,
        /// The local models that there are.
        present: Vec<String>,
    },
    /// This program cannot run local models.
    #[error("this program was built without local models; name another provider")]
    NoInferenceEngine,
}

fn missing_advice(can_be_pulled: bool, present: &[String]) -> String {
    match (can_be_pulled, present) {
        (true, _) => "; fetch it with `flowloom models pull`".to_owned(),
        (false, []) => String::new(),
        (false, present) => format!("; the local models are {}", present.join(", ")),
    }
}

/// Why a scripted model has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not JSON.
    #[error("the script {} is not JSON", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: JsonError,
    },
    /// The file has another shape.
    #[error("the script {} is neither a list of answers nor an object with `match` or `default`", path.display())]
    WrongShape {
        /// The file.
        path: PathBuf,
    },
    /// All answers of the list are used up.
    #[error("the script {path} has only {count} answer{}", if *count == 1 { "" } else { "s" })]
    Exhausted {
        /// The file.
        path: String,
        /// Number of answers in the list.
        count: usize,
    },
    /// No rule matches the request.
    #[error("the script {path} has no answer to: {question_start}")]
    NoMatch {
        /// The file.
        path: String,
        /// The start of the last user message.
        question_start: String,
    },
    /// The answer is an error; the text is from the script.
    #[error("{message}")]
    ScriptedFailure {
        /// The text.
        message: String,
    },
}

/// Why a JSON Schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It cannot be written as standard JSON.
    #[error("{0}")]
    NotJson(#[from] serde_json::Error),
    /// It is neither an object nor a Boolean.
    #[error("it is {kind}, not an object")]
    NotAnObject {
        /// Kind of the value, with an article.
        kind: &'static str,
    },
    /// Values cannot be held to it.
    #[error(transparent)]
    Invalid(#[from] CompileSchemaError),
}

impl ModelError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ModelError::Resolve(error) => error.code(),
            ModelError::Provider(error) => error.code(),
            ModelError::Engine(error) => error.code,
            ModelError::Script(error) => error.code(),
            ModelError::InvalidSchema(_) => Code::SchemaInvalid,
            ModelError::AnswerNotJson { .. } => Code::ModelNotJson,
            ModelError::NoAnswerGiven => Code::ResponseMissing,
            ModelError::FewerEmbeddings => Code::ModelFailed,
        }
    }

    /// Whether a later call may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            ModelError::Provider(error) => error.retry(),
            ModelError::Engine(error) => error.retry,
            ModelError::AnswerNotJson { .. } => Retry::Maybe,
            ModelError::Resolve(_)
            | ModelError::Script(_)
            | ModelError::InvalidSchema(_)
            | ModelError::NoAnswerGiven
            | ModelError::FewerEmbeddings => Retry::Never,
        }
    }
}

impl ResolveError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ResolveError::NoModelChosen => Code::ModelNone,
            ResolveError::NoModelInName { .. }
            | ResolveError::UnclearProvider { .. }
            | ResolveError::MisspelledProvider { .. }
            | ResolveError::UnknownProvider { .. }
            | ResolveError::NoProviderInName { .. }
            | ResolveError::CannotEmbed { .. }
            | ResolveError::FileNamed { .. }
            | ResolveError::NoScriptPath => Code::ModelUnknown,
            ResolveError::KeyMissing { .. } => Code::ModelKeyMissing,
            ResolveError::InvalidBaseUrl { .. } => Code::ConfigInvalid,
            ResolveError::FileMissing { .. } => Code::ModelFileMissing,
            ResolveError::NoInferenceEngine => Code::ModelFailed,
        }
    }
}

impl ScriptError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ScriptError::Unreadable { .. }
            | ScriptError::NotJson { .. }
            | ScriptError::WrongShape { .. }
            | ScriptError::ScriptedFailure { .. } => Code::ModelFailed,
            ScriptError::Exhausted { .. } | ScriptError::NoMatch { .. } => Code::ScriptExhausted,
        }
    }
}

/// The causes are logged here, because a step's error has none.
impl From<ModelError> for StepFailure {
    fn from(error: ModelError) -> StepFailure {
        match error {
            ModelError::Engine(error) => error,
            error => {
                log_causes(error.code(), &error);
                StepFailure { code: error.code(), message: error.to_string(), retry: error.retry() }
            }
        }
    }
}
