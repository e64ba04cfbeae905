//! Model selection: a table of settings, names and results.

use std::sync::Arc;

use flowloom_core::{Code, StepFailure};
use flowloom_runtime::effects::Model;

use crate::Models;
use crate::settings::{Environment, ModelSettings, ProviderSettings};

fn test_environment(pairs: &'static [(&'static str, &'static str)]) -> Arc<dyn Environment> {
    Arc::new(move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

const API_KEYS: &[(&str, &str)] =
    &[("OPENAI_API_KEY", "sk-test"), ("ANTHROPIC_API_KEY", "a-test"), ("GEMINI_API_KEY", "g-test")];

fn settings_with(default: Option<&str>, aliases: &[(&str, &str)]) -> ModelSettings {
    ModelSettings {
        default: default.map(str::to_owned),
        aliases: aliases.iter().map(|(name, target)| ((*name).to_owned(), (*target).to_owned())).collect(),
        cache_dir: Some("/nonexistent".into()),
        ..ModelSettings::default()
    }
}

fn resolve_model(default: Option<&str>, aliases: &[(&str, &str)], named: Option<&str>) -> Result<String, StepFailure> {
    Models::new(settings_with(default, aliases), test_environment(API_KEYS)).resolve(named)
}

/// Default, aliases, the name in the step, and the selected model.
type ResolveCase = (Option<&'static str>, &'static [(&'static str, &'static str)], Option<&'static str>, &'static str);

#[test]
fn names_defaults_and_aliases() {
    let table: &[ResolveCase] = &[
        (None, &[], Some("openai:gpt-4o"), "openai:gpt-4o"),
        (None, &[], Some("gpt-4o"), "openai:gpt-4o"),
        (None, &[], Some(" claude-sonnet-4-5 "), "anthropic:claude-sonnet-4-5"),
        (None, &[], Some("gemini-2.5-flash"), "gemini:gemini-2.5-flash"),
        (None, &[], Some("ollama:llama3:8b"), "ollama:llama3:8b"),
        (Some("ollama:llama3"), &[], None, "ollama:llama3"),
        (Some("ollama:llama3"), &[], Some(""), "ollama:llama3"),
        (Some("ollama:llama3"), &[], Some("gpt-4o"), "openai:gpt-4o"),
        (None, &[("fast", "ollama:llama3")], Some("fast"), "ollama:llama3"),
        (None, &[("gpt-4o", "ollama:llama3")], Some("openai:gpt-4o"), "ollama:llama3"),
        (None, &[("openai:gpt-4o", "ollama:llama3")], Some("gpt-4o"), "ollama:llama3"),
        (None, &[("openai:gpt-4o", "ollama:a"), ("gpt-4o", "ollama:b")], Some("openai:gpt-4o"), "ollama:a"),
        (None, &[("fast", "ollama:a"), ("fast", "ollama:b")], Some("fast"), "ollama:b"),
        (None, &[("fast", "gpt-4o")], Some("fast"), "openai:gpt-4o"),
        (Some("fast"), &[("fast", "ollama:a")], None, "ollama:a"),
        (None, &[("*", "ollama:all")], Some("gpt-4o"), "ollama:all"),
        (None, &[("*", "ollama:all")], Some("nothing anyone knows"), "ollama:all"),
        (None, &[("*", "ollama:all")], None, "ollama:all"),
        (None, &[("fast", "ollama:a"), ("*", "ollama:all")], Some("fast"), "ollama:a"),
        // An alias is applied once, so there are no cycles.
        (
            None,
            &[("gpt-4o", "claude-haiku-4-5"), ("claude-haiku-4-5", "gpt-4o")],
            Some("gpt-4o"),
            "anthropic:claude-haiku-4-5",
        ),
        (None, &[], Some("scripted:echo"), "scripted:echo"),
    ];
    for (default, aliases, named, expected) in table {
        assert_eq!(
            resolve_model(*default, aliases, *named).as_deref(),
            Ok(*expected),
            "{default:?} {aliases:?} {named:?}"
        );
    }
}

#[test]
fn a_tenant_cannot_name_a_file() {
    let resolve = |default: Option<&str>, aliases: &[(&str, &str)], named: Option<&str>| {
        let settings = ModelSettings { allows_named_files: false, ..settings_with(default, aliases) };
        Models::new(settings, test_environment(&[])).resolve(named).unwrap_err()
    };
    let script = "scripted:/no/such.json";
    for named in [script, "local:/no/such.gguf", "local:../x", " scripted: x.json"] {
        let error = resolve(None, &[], Some(named));
        assert!(error.code == Code::ModelUnknown && error.message.contains("[models.alias]"), "{}", error.message);
    }
    // The configuration may name files, and then a definition may use the same name.
    for (default, aliases, named) in [
        (Some(script), &[][..], None),
        (Some(script), &[], Some(script)),
        (None, &[("said", script)], Some("said")),
        (None, &[(script, script)], Some(script)),
    ] {
        let error = resolve(default, aliases, named);
        assert!(error.code == Code::ModelFailed && error.message.contains("/no/such.json"), "{}", error.message);
    }
}

#[test]
fn what_cannot_be_chosen_says_why() {
    let table: &[(Option<&str>, Code, &str)] = &[
        (None, Code::ModelNone, "provider:model"),
        (Some("opnai:gpt-4o"), Code::ModelUnknown, "`openai:gpt-4o`"),
        (Some("llama3:8b"), Code::ModelUnknown, "`ollama:llama3:8b`"),
        (Some("openai/gpt-4o"), Code::ModelUnknown, "`openai:gpt-4o`"),
        (Some("llama3"), Code::ModelUnknown, "ollama:llama3"),
        (Some("openai:"), Code::ModelUnknown, "does not name a model"),
        (Some("groq:llama"), Code::ModelKeyMissing, "GROQ_API_KEY"),
        (Some("local:smollm2-135m"), Code::ModelFileMissing, "flowloom models pull"),
        (Some("local:/no/such.gguf"), Code::ModelFileMissing, "/no/such.gguf"),
        (Some("scripted:/no/such.json"), Code::ModelFailed, "/no/such.json"),
        (Some("scripted:"), Code::ModelUnknown, "scripted:PATH"),
    ];
    for (named, code, part) in table {
        let error = resolve_model(None, &[], *named).unwrap_err();
        assert_eq!(error.code, *code, "{named:?}: {}", error.message);
        assert!(error.message.contains(part), "{named:?}: {}", error.message);
    }
    let none = resolve_model(None, &[], None).unwrap_err().message;
    assert!(none.contains("default_model") && none.contains("flowloom models pull"), "{none}");
}

#[test]
fn without_a_choice_the_cached_local_model_answers_and_never_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let cached = ModelSettings { cache_dir: Some(folder.path().into()), ..ModelSettings::default() };
    let models = Models::new(cached, test_environment(API_KEYS));
    assert_eq!(models.resolve(None).unwrap_err().code, Code::ModelNone);
    std::fs::write(folder.path().join("smollm2-135m.gguf"), "x").unwrap();
    assert_eq!(models.resolve(None).unwrap(), format!("local:{}", crate::LOCAL_MODEL));
    assert_eq!(models.list_local_models(), ["local:smollm2-135m"]);
}

#[test]
fn keys_are_needed_except_on_this_machine() {
    let key = |pairs| Models::new(settings_with(None, &[]), test_environment(pairs)).resolve(Some("openai:gpt-4o"));
    assert_eq!(key(&[]).unwrap_err().code, Code::ModelKeyMissing);
    assert_eq!(key(&[("OPENAI_API_KEY", "  ")]).unwrap_err().code, Code::ModelKeyMissing);
    for address in ["http://127.0.0.1:1/v1", "http://localhost:1/v1/", "http://[::1]:1/v1"] {
        let pairs: &'static [(&str, &str)] = Box::leak(Box::new([("OPENAI_BASE_URL", address)]));
        assert_eq!(key(pairs).as_deref(), Ok("openai:gpt-4o"), "{address}");
    }
    assert_eq!(key(&[("OPENAI_BASE_URL", "http://example.invalid/v1")]).unwrap_err().code, Code::ModelKeyMissing);
    assert_eq!(key(&[("OPENAI_BASE_URL", "ftp://localhost")]).unwrap_err().code, Code::ConfigInvalid);
    assert_eq!(key(&[("OPENAI_BASE_URL", "nonsense")]).unwrap_err().code, Code::ConfigInvalid);
}

#[test]
fn addresses_are_completed_as_each_provider_s_own_tools_do() {
    let base = |name: &str, pairs: &'static [(&'static str, &'static str)]| {
        let own = ProviderSettings { name: "mine".to_owned(), base_url: "http://u:p@h/v1/".to_owned(), key_env: None };
        let settings = ModelSettings { providers: vec![own], ..settings_with(None, &[]) };
        super::resolve_target(&settings, &*test_environment(pairs), name, "m").unwrap().base_url
    };
    assert_eq!(base("ollama", &[]), "http://127.0.0.1:11434/v1");
    assert_eq!(base("ollama", &[("OLLAMA_HOST", "box")]), "http://box:11434/v1");
    assert_eq!(base("ollama", &[("OLLAMA_HOST", "0.0.0.0:99")]), "http://127.0.0.1:99/v1");
    assert_eq!(base("ollama", &[("OLLAMA_BASE_URL", "https://box/v1/"), ("OLLAMA_HOST", "x")]), "https://box/v1");
    assert_eq!(
        base("anthropic", &[("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", "https://a.b")]),
        "https://a.b/v1"
    );
    assert_eq!(base("mine", &[]), "http://u:p@h/v1");
}

#[test]
fn providers_are_listed_with_what_they_lack() {
    let own = ProviderSettings { name: "mine".to_owned(), base_url: "http://u:p@h/v1".to_owned(), key_env: None };
    let models = Models::new(ModelSettings { providers: vec![own], ..settings_with(None, &[]) }, test_environment(&[]));
    let listed = models.list_providers();
    let of = |name: &str| listed.iter().find(|status| status.name == name).unwrap();
    assert_eq!(of("openai").problem.as_ref().map(|problem| problem.code()), Some(Code::ModelKeyMissing));
    assert_eq!(of("mine").problem, None);
    assert!(!of("mine").base_url.contains("u:p"));
}

#[test]
fn prices_and_sizes() {
    let models = Models::new(settings_with(None, &[]), test_environment(&[]));
    for free in ["local:x", "ollama:x", "scripted:echo"] {
        assert_eq!(models.find_price(free).map(|price| price.compute_cost(9, 9)), Some(0));
    }
    assert_eq!(models.find_price("openai:gpt-4o").unwrap().compute_cost(1_000_000, 0), 2_500_000);
    assert_eq!(models.find_price("openai:nobody-knows"), None);
    assert_eq!(models.find_price("mine:gpt-4o"), None);
    assert_eq!(models.context_window("openai:gpt-4o"), 128_000);
    assert_eq!(models.context_window("local:smollm2-135m"), 8_192);
    assert_eq!(models.count_tokens("x:y", "abcdefgh€"), 3);
}
