//! [`Models`] implements the runtime's model trait. It selects the kind of model (`remote`, `local`, `scripted`) and
//! does what they have in common.

use std::sync::Arc;

use flowloom_core::chat::{Message, Usage};
use flowloom_core::effect::{GenerateRequest, Generated, Purpose};
use flowloom_core::{Code, StepError, Value};
use flowloom_runtime::effects::{Context, Model, Price, Reply};

use crate::catalog::{self, Figures};
use crate::estimate::estimate;
use crate::local::{LOCAL_MAX_ANSWER_TOKENS, Local, LocalModels};
use crate::remote::{Answer, Remote};
use crate::resolve;
use crate::scripted::{self, Scripted};
use crate::settings::{Environment, ModelSettings, cache_dir};
use crate::structured::{self, Schema};

/// Context window of unknown models, in tokens; small enough for what people run at home.
const UNKNOWN_WINDOW: u64 = 32_768;
/// Maximum answer of unknown models, in tokens.
const UNKNOWN_ANSWER: u64 = 4_096;
/// Context window of scripted models, in tokens.
const SCRIPTED_WINDOW: u64 = 128_000;

/// Language models of all kinds.
pub struct Models {
    pub(crate) settings: ModelSettings,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) remote: Remote,
    pub(crate) local: Local,
    scripted: Scripted,
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
    pub problem: Option<StepError>,
}

impl Models {
    /// Creates the models from settings. Opens, loads and sends nothing.
    pub fn new(settings: ModelSettings, environment: Arc<dyn Environment>) -> Models {
        let folder = settings.cache_dir.clone().unwrap_or_else(|| cache_dir(&*environment));
        Models {
            remote: Remote::new(&settings),
            local: Local::new(folder, None),
            scripted: Scripted::default(),
            settings,
            environment,
        }
    }

    /// The same models with local ones, which `engine` runs.
    #[must_use]
    pub fn with_local(self, engine: Arc<dyn LocalModels>) -> Models {
        let local = Local::new(self.local.folder().to_owned(), Some(engine));
        Models { local, ..self }
    }

    /// The folder in which local models are looked up.
    pub fn local_dir(&self) -> &std::path::Path {
        self.local.folder()
    }

    /// Names of the available local models.
    pub fn local_models(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.local.folder()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(format!("local:{}", entry.file_name().to_str()?.strip_suffix(".gguf")?)))
            .collect();
        names.sort();
        names
    }

    /// The providers over the network, and whether each can be used.
    pub fn providers(&self) -> Vec<ProviderStatus> {
        let known = catalog::providers().iter().map(|known| (&known.name, &known.base_url, known.key_env.clone()));
        let own = self.settings.providers.iter().map(|own| (&own.name, &own.base_url, own.key_env.clone()));
        known
            .chain(own)
            .map(|(name, base_url, key_env)| {
                let target = resolve::target(&self.settings, &*self.environment, name, "");
                let (base_url, problem) = match target {
                    Ok(target) => (target.base_url, None),
                    Err(problem) => (base_url.clone(), Some(problem)),
                };
                ProviderStatus { name: name.clone(), base_url: without_password(&base_url), key_env, problem }
            })
            .collect()
    }

    async fn ask(&self, request: &GenerateRequest, context: &Context, key: &str) -> Result<Generated, StepError> {
        let (provider, name) = split(&request.model)?;
        match provider {
            "local" => self.local.generate(name, request, context).await,
            "scripted" => self.scripted.generate(&self.script(name)?, request, context),
            _ => {
                let target = resolve::target(&self.settings, &*self.environment, provider, name)?;
                let most = u32::try_from(self.default_max_tokens(&request.model)).unwrap_or(u32::MAX);
                let answer = self.remote.generate(&target, request, context, key, most).await?;
                Ok(self.priced(request, answer))
            }
        }
    }

    async fn ask_for_json(
        &self,
        request: &GenerateRequest,
        schema: &Value,
        context: &Context,
    ) -> Result<Generated, StepError> {
        let schema = Schema::new(schema)?;
        let request = schema.instruct(request);
        let mut answer = self.ask(&request, context, &context.key()).await?;
        // A response with tool calls is not the answer yet.
        if !answer.tool_calls.is_empty() || request.purpose == Purpose::Judged {
            return Ok(answer);
        }
        let complaint = match schema.check(&answer) {
            Ok(text) => return Ok(Generated { text: Some(text), ..answer }),
            Err(complaint) => complaint,
        };
        let first = answer.usage;
        let again = structured::repair(&request, &answer, &complaint);
        answer = self.ask(&again, context, &format!("{}-repair", context.key())).await?;
        answer.usage.add(&first);
        match schema.check(&answer) {
            Ok(text) => Ok(Generated { text: Some(text), ..answer }),
            Err(complaint) => Err(structured::not_json(&answer, &complaint)),
        }
    }

    fn priced(&self, request: &GenerateRequest, answer: Answer) -> Generated {
        let price = self.price(&request.model);
        let usage = match answer.usage {
            Some((input_tokens, output_tokens)) => {
                let micro_usd = price.map(|price| price.of(input_tokens, output_tokens));
                Usage { input_tokens, output_tokens, micro_usd }
            }
            // Calls must not look free because a server does not count tokens.
            None => Usage {
                input_tokens: request.messages.iter().map(message_tokens).sum(),
                output_tokens: estimate(&answer.text),
                micro_usd: price.filter(|price| price.input == 0 && price.output == 0).map(|_| 0),
            },
        };
        let text = (!answer.text.is_empty()).then_some(answer.text);
        Generated { text, tool_calls: answer.calls, usage }
    }

    fn script(&self, name: &str) -> Result<String, StepError> {
        match (name, &self.settings.script) {
            ("", Some(path)) => Ok(path.to_string_lossy().into_owned()),
            ("", None) => Err(StepError::new(Code::ModelUnknown, "`scripted:` needs a file; write scripted:PATH")),
            (name, _) => Ok(name.to_owned()),
        }
    }

    fn figures(&self, model: &str) -> Option<Figures> {
        let (provider, name) = model.split_once(':')?;
        catalog::figures(provider, name)
    }
}

impl Model for Models {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepError> {
        let model = resolve::choose(&self.settings, &self.local, named)?;
        let (provider, name) = split(&model)?;
        match provider {
            "local" => self.local.file(name).map(drop)?,
            "scripted" => match self.script(name)?.as_str() {
                "echo" => {}
                path => scripted::load(std::path::Path::new(path)).map(drop)?,
            },
            _ => resolve::target(&self.settings, &*self.environment, provider, name).map(drop)?,
        }
        Ok(model)
    }

    fn generate<'a>(&'a self, request: &'a GenerateRequest, context: &'a Context) -> Reply<'a, Generated> {
        match &request.schema {
            Some(schema) => Box::pin(self.ask_for_json(request, schema, context)),
            None => Box::pin(async move { self.ask(request, context, &context.key()).await }),
        }
    }

    fn window(&self, model: &str) -> u64 {
        match model.split_once(':') {
            Some(("local", name)) => self.local.window(name),
            Some(("scripted", _)) => SCRIPTED_WINDOW,
            _ => self.figures(model).map_or(UNKNOWN_WINDOW, |figures| figures.window),
        }
    }

    fn count_tokens(&self, _model: &str, text: &str) -> u64 {
        estimate(text)
    }

    fn default_max_tokens(&self, model: &str) -> u64 {
        match model.split_once(':') {
            Some(("local", _)) => LOCAL_MAX_ANSWER_TOKENS,
            _ => self.figures(model).map_or(UNKNOWN_ANSWER, |figures| figures.answer),
        }
    }

    fn price(&self, model: &str) -> Option<Price> {
        match model.split_once(':') {
            Some(("local" | "scripted" | "ollama", _)) => Some(Price { input: 0, output: 0 }),
            _ => self.figures(model).map(|figures| figures.price()),
        }
    }
}

/// Splits `provider:model`.
pub(crate) fn split(model: &str) -> Result<(&str, &str), StepError> {
    model.split_once(':').ok_or_else(|| {
        StepError::new(Code::ModelUnknown, format!("the model `{model}` has no provider; write provider:model"))
    })
}

fn message_tokens(message: &Message) -> u64 {
    estimate(&message.content) + 4
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
