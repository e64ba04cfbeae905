//! [`Models`] implements the runtime's model trait. It selects the kind of model (`remote`, `local`, `scripted`) and
//! does what they have in common.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use flowloom_core::chat::{Message, Usage};
use flowloom_core::effect::{GenerateReply, GenerateRequest, ResponseFacts};
use flowloom_core::{StepFailure, Value};
use flowloom_runtime::effects::{EffectContext, EffectFuture, Model, Price};
use futures_util::TryFutureExt as _;

use crate::catalog::{self, Figures, LOCAL_MODEL};
use crate::error::{ModelError, ResolveError};
use crate::estimate::estimate_tokens;
use crate::given_answers::GivenAnswers;
use crate::local::{InferenceEngine, LOCAL_MAX_ANSWER_TOKENS, LocalModels};
use crate::remote::{ProviderAnswer, RemoteModels};
use crate::resolve;
use crate::scripted::{self, ScriptedModel};
use crate::settings::{Environment, ModelSettings, cache_dir};
use crate::structured::{self, Schema};

/// Context window of unknown models, in tokens; small enough for what people run at home.
const UNKNOWN_WINDOW_TOKENS: u64 = 32_768;
/// Maximum answer of unknown models, in tokens.
const UNKNOWN_ANSWER_TOKENS: u64 = 4_096;
/// Context window of scripted models, in tokens.
const SCRIPTED_WINDOW_TOKENS: u64 = 128_000;

/// Language models of all kinds.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use flowloom_models::{ModelSettings, Models};
/// use flowloom_runtime::effects::Model as _;
///
/// let settings = ModelSettings { aliases: vec![("fast".into(), "openai:gpt-4o-mini".into())], ..ModelSettings::default() };
/// let models = Models::new(settings, Arc::new(|name: &str| (name == "OPENAI_API_KEY").then(|| "sk-…".to_owned())));
/// assert_eq!(models.resolve(Some("fast")).ok().as_deref(), Some("openai:gpt-4o-mini"));
/// ```
pub struct Models {
    pub(crate) settings: ModelSettings,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) remote: RemoteModels,
    pub(crate) local: LocalModels,
    scripted: ScriptedModel,
    given_answers: Option<GivenAnswers>,
}

/// A provider as listed by `flowloom models list`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    /// Name of the provider.
    pub name: String,
    /// Base URL, without a password.
    pub base_url: String,
    /// Environment variable of the key.
    pub key_env: Option<String>,
    /// Why it cannot be used; `None` if it can.
    pub problem: Option<ResolveError>,
    /// A model to propose to people who have its key.
    pub suggested: Option<String>,
}

impl Models {
    /// Creates the models from settings. Opens, loads and sends nothing.
    pub fn new(settings: ModelSettings, environment: Arc<dyn Environment>) -> Models {
        let folder = settings.cache_dir.clone().unwrap_or_else(|| cache_dir(&*environment));
        Models {
            remote: RemoteModels::new(&settings),
            local: LocalModels::new(folder, None),
            scripted: ScriptedModel::default(),
            given_answers: None,
            settings,
            environment,
        }
    }

    /// The same models with local ones, which `engine` runs.
    #[must_use]
    pub fn with_local(self, engine: Arc<dyn InferenceEngine>) -> Models {
        let local = LocalModels::new(self.local.model_folder().to_owned(), Some(engine));
        Models { local, ..self }
    }

    /// The folder in which local models are looked up.
    pub fn local_dir(&self) -> &Path {
        self.local.model_folder()
    }

    /// Names of the available local models.
    pub fn list_local_models(&self) -> Vec<String> {
        self.local.list_names()
    }

    /// The providers over the network, and whether each can be used.
    pub fn list_providers(&self) -> Vec<ProviderStatus> {
        let is_own = |name: &String| self.settings.providers.iter().any(|own| own.name == *name);
        let known = catalog::known_providers().iter().filter(|known| !is_own(&known.name));
        let known = known.map(|known| (&known.name, &known.base_url, known.key_env.clone()));
        let own = self.settings.providers.iter().map(|own| (&own.name, &own.base_url, own.key_env.clone()));
        known
            .chain(own)
            .map(|(name, base_url, key_env)| {
                let target = resolve::resolve_target(&self.settings, &*self.environment, name, "");
                let (base_url, problem) = match target {
                    Ok(target) => (target.base_url, None),
                    Err(problem) => (base_url.clone(), Some(problem)),
                };
                let suggested = catalog::suggested_model(name).map(str::to_owned);
                ProviderStatus {
                    name: name.clone(),
                    base_url: without_password(&base_url),
                    key_env,
                    problem,
                    suggested,
                }
            })
            .collect()
    }

    /// Answers calls with these, in their order and in the form of scripted models. When they are used up, models are asked,
    /// or calls fail with [`ModelError::NoAnswerGiven`].
    pub fn with_answers(mut self, answers: Vec<Value>, asks_models_then: bool) -> Models {
        self.given_answers = Some(GivenAnswers::new(answers, asks_models_then));
        self
    }

    /// The number of those answers that no call has taken.
    pub fn count_unused_answers(&self) -> usize {
        self.given_answers.as_ref().map_or(0, GivenAnswers::count_unused)
    }

    /// Asks a model. Calls of tools are ignored if the request offers none, because nothing would run them.
    fn ask_model(
        &self,
        request: &GenerateRequest,
        context: &EffectContext,
        key: &str,
    ) -> impl Future<Output = Result<GenerateReply, ModelError>> {
        self.ask_any_model(request, context, key).map_ok(|mut answer| {
            if request.tools.is_empty() && !answer.tool_calls.is_empty() {
                answer.tool_calls.clear();
                answer.text.get_or_insert_default();
            }
            answer
        })
    }

    async fn ask_any_model(
        &self,
        request: &GenerateRequest,
        context: &EffectContext,
        key: &str,
    ) -> Result<GenerateReply, ModelError> {
        if let Some(answers) = &self.given_answers {
            match answers.take_next() {
                Some(answer) => return Ok(scripted::parse_answer(&answer)?),
                None if answers.asks_models_then => {}
                None => return Err(ModelError::NoAnswerGiven),
            }
        }
        let (provider, name) = split_model_name(&request.model)?;
        match provider {
            "local" if name == LOCAL_MODEL && self.choose_model(None) == Err(ResolveError::NoModelChosen) => {
                Err(ResolveError::NoModelChosen.into())
            }
            "local" => self.local.generate_answer(name, request, context).await,
            "scripted" => Ok(self.scripted.generate_answer(&self.script_path(name)?, request, context)?),
            _ => {
                let target = Box::new(resolve::resolve_target(&self.settings, &*self.environment, provider, name)?);
                let most = u32::try_from(self.default_max_tokens(&request.model)).unwrap_or(u32::MAX);
                let answer = self.remote.generate_answer(&target, request, context, key, most).await?;
                Ok(self.add_price(request, answer))
            }
        }
    }

    async fn ask_for_json(
        &self,
        request: &GenerateRequest,
        schema: &Value,
        context: &EffectContext,
    ) -> Result<GenerateReply, ModelError> {
        let mut schema = Schema::new(schema)?;
        schema = match split_model_name(&request.model)?.0 {
            "local" => schema.close_schema(),
            "scripted" => schema,
            _ if !request.purpose.is_strict() => schema,
            _ => schema.wrap_answer(),
        };
        let request = Box::new(schema.build_request(request));
        let mut answer = self.ask_model(&request, context, &context.idempotency_key()).await?;
        // A response with tool calls is not the answer yet.
        if !answer.tool_calls.is_empty() || !request.purpose.is_strict() {
            return Ok(answer);
        }
        let problem = match schema.validate_answer(&answer) {
            Ok(text) => return Ok(GenerateReply { text: Some(text), ..answer }),
            Err(problem) => problem,
        };
        let first = answer.usage;
        // A refused answer was paid for, whatever comes of the next one.
        let charge = |usage| context.allowance.iter().for_each(|allowance| allowance.add_usage(usage));
        let again = Box::new(structured::repair_request(&request, &answer, &problem));
        answer = match self.ask_model(&again, context, &format!("{}-repair", context.idempotency_key())).await {
            Ok(answer) => answer,
            Err(error) => {
                charge(&first);
                return Err(error);
            }
        };
        answer.usage.add(&first);
        match schema.validate_answer(&answer) {
            Ok(text) => Ok(GenerateReply { text: Some(text), ..answer }),
            Err(problem) => {
                charge(&answer.usage);
                Err(structured::not_json_error(&answer, problem))
            }
        }
    }

    fn add_price(&self, request: &GenerateRequest, answer: ProviderAnswer) -> GenerateReply {
        let price = self.find_price(&request.model);
        let usage = match answer.usage {
            Some((input_tokens, output_tokens)) => {
                let micro_usd = price.map(|price| price.compute_cost(input_tokens, output_tokens));
                Usage { input_tokens, output_tokens, micro_usd }
            }
            // Calls must not look free because a server does not count tokens.
            None => Usage {
                input_tokens: request.messages.iter().map(message_tokens).sum(),
                output_tokens: estimate_tokens(&answer.text),
                micro_usd: price.filter(|price| price.input == 0 && price.output == 0).map(|_| 0),
            },
        };
        let text = GenerateReply::keep_text(answer.text, &answer.calls);
        let asked = split_model_name(&request.model).map_or("", |(_, name)| name);
        let model = (!answer.model.is_empty() && answer.model != asked).then_some(answer.model);
        let response = ResponseFacts { model, finish_reason: answer.finish_reason, ..answer.response };
        GenerateReply { text, tool_calls: answer.calls, usage, response }
    }

    fn script_path(&self, name: &str) -> Result<String, ResolveError> {
        match (name, &self.settings.script) {
            ("", Some(path)) => Ok(path.to_string_lossy().into_owned()),
            ("", None) => Err(ResolveError::NoScriptPath),
            ("echo", _) => Ok(name.to_owned()),
            (name, _) => {
                let beside = self.settings.script_folder.join(name);
                let is_beside = !Path::new(name).exists() && beside.exists();
                Ok(if is_beside { beside.to_string_lossy().into_owned() } else { name.to_owned() })
            }
        }
    }

    /// The model of a step that names `named`, as `provider:model`. Whether it can be used is not checked. Fails if the
    /// name is incomplete or its provider is unknown, or if no model is named, configured or downloaded.
    pub fn choose_model(&self, named: Option<&str>) -> Result<String, ResolveError> {
        resolve::choose_model(&self.settings, &self.local, named)
    }

    fn resolve_model(&self, named: Option<&str>) -> Result<String, ModelError> {
        let model = resolve::choose_model(&self.settings, &self.local, named)?;
        let (provider, name) = split_model_name(&model)?;
        match provider {
            "local" => self.local.find_file(name).map(drop)?,
            "scripted" => match self.script_path(name)?.as_str() {
                "echo" => {}
                path => scripted::load_script(Path::new(path)).map(drop)?,
            },
            _ => resolve::resolve_target(&self.settings, &*self.environment, provider, name).map(drop)?,
        }
        Ok(model)
    }

    fn find_figures(&self, model: &str) -> Option<Figures> {
        let (provider, name) = model.split_once(':')?;
        catalog::find_figures(provider, name)
    }
}

impl Model for Models {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        Ok(self.resolve_model(named)?)
    }

    fn find_model_name(&self, named: Option<&str>) -> Result<String, StepFailure> {
        match self.choose_model(named) {
            // The only model that needs no choice, if its file exists.
            Err(ResolveError::NoModelChosen) => Ok(format!("local:{LOCAL_MODEL}")),
            chosen => Ok(chosen.map_err(ModelError::from)?),
        }
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        match &request.schema {
            Some(schema) => Box::pin(self.ask_for_json(request, schema, context).map_err(StepFailure::from)),
            None => Box::pin(async move { Ok(self.ask_model(request, context, &context.idempotency_key()).await?) }),
        }
    }

    fn context_window(&self, model: &str) -> u64 {
        match model.split_once(':') {
            Some(("local", name)) => self.local.read_window(name),
            Some(("scripted", _)) => SCRIPTED_WINDOW_TOKENS,
            _ => self.find_figures(model).map_or(UNKNOWN_WINDOW_TOKENS, |figures| figures.window),
        }
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        estimate_tokens(text)
    }

    fn default_max_tokens(&self, model: &str) -> u64 {
        match model.split_once(':') {
            Some(("local", _)) => LOCAL_MAX_ANSWER_TOKENS,
            _ => self.find_figures(model).map_or(UNKNOWN_ANSWER_TOKENS, |figures| figures.answer),
        }
    }

    fn find_price(&self, model: &str) -> Option<Price> {
        match model.split_once(':') {
            Some(("local" | "scripted" | "ollama", _)) => Some(Price { input: 0, output: 0 }),
            _ => self.find_figures(model).map(|figures| figures.price()),
        }
    }
}

/// Splits `provider:model`.
pub(crate) fn split_model_name(model: &str) -> Result<(&str, &str), ResolveError> {
    model.split_once(':').ok_or_else(|| ResolveError::NoProviderInName { model: model.to_owned() })
}

fn message_tokens(message: &Message) -> u64 {
    estimate_tokens(&message.content) + 4
}

fn without_password(address: &str) -> String {
    match reqwest::Url::parse(address) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            // Neither call fails for a URL with a host.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.to_string()
        }
        _ => address.to_owned(),
    }
}
