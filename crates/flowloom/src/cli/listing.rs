//! The commands as their help and their man pages list them: in groups, each with two examples.

/// Commands that are listed under one heading of `flowloom --help`.
pub(super) struct CommandGroup {
    pub(super) title: &'static str,
    pub(super) commands: &'static [&'static str],
}

/// The groups of `flowloom --help`, in their order. Within a group, the most frequently used command comes first.
pub(super) const GROUPS: [CommandGroup; 6] = [
    CommandGroup { title: "Run definitions", commands: &["run", "dev", "chat", "agent", "demo"] },
    CommandGroup {
        title: "Write and check definitions",
        commands: &[
            "init", "list", "new", "check", "fmt", "convert", "plan", "test", "diff", "graph", "schema", "import",
            "blocks", "lsp", "dap", "eval",
        ],
    },
    CommandGroup {
        title: "Inspect and control runs",
        commands: &[
            "runs",
            "show",
            "logs",
            "fork",
            "retry",
            "resume",
            "answer",
            "resolve",
            "cancel",
            "delete",
            "replay",
            "notifications",
        ],
    },
    CommandGroup {
        title: "Serve workflows",
        commands: &["serve", "studio", "worker", "mcp", "sync", "schedule", "hooks", "keys", "audit", "usage", "user"],
    },
    CommandGroup { title: "Maintain the installation", commands: &["models", "prune", "backup", "restore"] },
    CommandGroup { title: "Get help", commands: &["help", "doctor", "explain", "completions", "man"] },
];

/// The examples of a command; `path` is the command without `flowloom`, such as `blocks list`.
pub(super) fn find_examples(path: &str) -> Option<&'static [&'static str; 2]> {
    EXAMPLES.iter().find(|(command, _)| *command == path).map(|(_, examples)| examples)
}

/// Command lines by command. A file below `examples/` exists in the repository.
const EXAMPLES: &[(&str, [&str; 2])] = &[
    (
        "run",
        [
            "flowloom run examples/steps/review-document.json --input review.txt",
            "flowloom run report.mdx -i topic=tides -i notes=@notes.txt --budget usd=0.10",
        ],
    ),
    (
        "dev",
        ["flowloom dev examples/steps/review-document.json --input review.txt", "flowloom dev report -i topic=tides"],
    ),
    ("init", ["flowloom init my-project", "flowloom init reviews --from examples/steps/review-document.json"]),
    ("list", ["flowloom list", "flowloom list examples --json"]),
    (
        "chat",
        [
            "flowloom chat examples/graph/helpdesk.json",
            r#"flowloom chat helpdesk.json --new -m "Where is my order 4711?""#,
        ],
    ),
    (
        "agent",
        ["flowloom agent workflows/", r#"flowloom agent workflows/guide.json -m "What is the weather in Oslo?""#],
    ),
    ("demo", ["flowloom demo", "flowloom demo --model openai:gpt-4o-mini"]),
    (
        "new",
        [
            r#"flowloom new "Count the most frequent words of a text""#,
            r#"flowloom new "Summarise a web page" --yes --out summary --into steps"#,
        ],
    ),
    ("check", ["flowloom check flow.json --fix", "flowloom check workflows/*.json --report sarif"]),
    ("fmt", ["flowloom fmt", "flowloom fmt --check examples"]),
    (
        "convert",
        [
            "flowloom convert examples/flow/summarize-page.json --to steps",
            "flowloom convert flow.json --to markdown --out flow.mdx --strict",
        ],
    ),
    (
        "plan",
        [
            "flowloom plan examples/steps/review-document.json --input review.txt",
            "flowloom plan report.mdx -i topic=tides --model openai:gpt-4o --max usd=0.10,calls=5",
        ],
    ),
    ("test", ["flowloom test", "flowloom test tests/review.json --live --update"]),
    (
        "test record",
        [
            "flowloom test record last --as tests/review.json",
            "flowloom test record 0199 --as tests/report.json --definition report.mdx --force",
        ],
    ),
    ("diff", ["flowloom diff 0199 last", "flowloom diff review.json review.mdx --json"]),
    ("graph", ["flowloom graph examples/graph/helpdesk.json", "flowloom graph flow.json --format svg > flow.svg"]),
    ("dap", ["flowloom dap", "flowloom dap --config flowloom.toml"]),
    ("lsp", ["flowloom lsp", "flowloom lsp --config flowloom.toml"]),
    ("schema", ["flowloom schema flow", "flowloom schema markdown > frontmatter.schema.json"]),
    ("import", ["flowloom import hub-item.json", "flowloom import hub-item.json --out flow.json"]),
    ("blocks", ["flowloom blocks list", r#"flowloom blocks find "read a web page""#]),
    ("blocks list", ["flowloom blocks list", "flowloom blocks list --user ann --json"]),
    ("blocks show", ["flowloom blocks show filter", "flowloom blocks show count_words --json"]),
    ("blocks find", [r#"flowloom blocks find "read a web page""#, r#"flowloom blocks find "send an email" --limit 3"#]),
    (
        "blocks export",
        ["flowloom blocks export backup/blocks", "flowloom blocks export my-pipeline/blocks count_words shorten"],
    ),
    (
        "blocks import",
        ["flowloom blocks import examples/pipeline/blocks", "flowloom blocks import shorten.json --user ann"],
    ),
    ("blocks remove", ["flowloom blocks remove count_words", "flowloom blocks remove shorten --user ann"]),
    ("eval", ["flowloom eval author --recorded", "flowloom eval author --model openai:gpt-4o-mini"]),
    (
        "eval author",
        ["flowloom eval author --recorded", "flowloom eval author --model openai:gpt-4o-mini clean-table log-report"],
    ),
    ("runs", ["flowloom runs --limit 5", "flowloom runs --status failed --json"]),
    ("show", ["flowloom show last", "flowloom show 0199 /summary"]),
    ("logs", ["flowloom logs last", "flowloom logs 0199 --follow"]),
    ("notifications", ["flowloom notifications", "flowloom notifications --user ann --json"]),
    (
        "fork",
        [
            "flowloom fork last --at /summary --edit /summary.prompt=@prompt.txt",
            "flowloom fork 0199 --definition report.mdx --yes",
        ],
    ),
    ("retry", ["flowloom retry last", "flowloom retry 0199 --from /summarise"]),
    ("resume", ["flowloom resume last", "flowloom resume 0199 --events"]),
    ("answer", ["flowloom answer last yes", r#"flowloom answer 0199 '{"approved": true}' --path /review"#]),
    (
        "resolve",
        ["flowloom resolve last /charge --resend", r#"flowloom resolve 0199 /charge --value '{"id": "ch_1"}'"#],
    ),
    ("cancel", ["flowloom cancel last", "flowloom cancel 0199"]),
    ("delete", ["flowloom delete last", "flowloom delete 0199 01a2"]),
    ("replay", ["flowloom replay last", "flowloom replay 0199 --json"]),
    ("serve", ["flowloom serve workflows/", "flowloom serve workflows/ --bind 0.0.0.0:8700 --host flows.example"]),
    ("studio", ["flowloom studio", "flowloom studio examples --bind 127.0.0.1:8701 --no-open"]),
    (
        "worker",
        [
            "flowloom worker --restate http://127.0.0.1:8080",
            "flowloom worker --restate http://restate:8080 --listen 0.0.0.0:9080 --url http://workers:9080",
        ],
    ),
    ("mcp", ["flowloom mcp workflows/", "flowloom mcp workflows/ --user ann --model openai:gpt-4o-mini"]),
    ("sync", ["flowloom sync workflows/ --dry-run", "flowloom sync workflows/ --prune --server https://flows.example"]),
    ("schedule", [r#"flowloom schedule add report.json --cron "0 6 * * 1-5""#, "flowloom schedule list"]),
    (
        "schedule add",
        [
            r#"flowloom schedule add report.json --cron "0 6 * * *" --timezone Europe/Oslo"#,
            r#"flowloom schedule add report -i topic=news --cron "*/15 * * * *" --missed skip"#,
        ],
    ),
    ("schedule list", ["flowloom schedule list", "flowloom schedule list --json"]),
    ("schedule pause", ["flowloom schedule pause report", "flowloom schedule pause report --user ann"]),
    ("schedule resume", ["flowloom schedule resume report", "flowloom schedule resume report --user ann"]),
    ("schedule remove", ["flowloom schedule remove report", "flowloom schedule remove report --user ann"]),
    ("hooks", ["flowloom hooks add deploy.json", "flowloom hooks list"]),
    ("hooks add", ["flowloom hooks add deploy.json", "flowloom hooks add deploy --id github --secret GITHUB"]),
    ("hooks list", ["flowloom hooks list", "flowloom hooks list --json"]),
    ("hooks remove", ["flowloom hooks remove github", "flowloom hooks remove github --user ann"]),
    ("keys", ["flowloom keys create --name laptop", "flowloom keys list"]),
    (
        "keys create",
        [
            "flowloom keys create --name laptop",
            "flowloom keys create --name ci --scopes read,write --user ann --expires 90d",
        ],
    ),
    ("keys list", ["flowloom keys list", "flowloom keys list --json"]),
    ("keys rotate", ["flowloom keys rotate ci", "flowloom keys rotate ci --overlap 1h --expires 90d"]),
    ("keys revoke", ["flowloom keys revoke KEY_ID", "flowloom keys revoke KEY_ID --data-dir /srv/flowloom"]),
    ("audit", ["flowloom audit", "flowloom audit --since 7d --user ann --json"]),
    ("usage", ["flowloom usage", "flowloom usage --user ann --json"]),
    ("user", ["flowloom user set name=Ada city=London", "flowloom user show"]),
    (
        "user set",
        ["flowloom user set name=Ada city=London", r#"flowloom user set --user ann interests:='["tides", "lamps"]'"#],
    ),
    ("user show", ["flowloom user show", "flowloom user show --user ann --json"]),
    ("models", ["flowloom models list", "flowloom models pull"]),
    ("models list", ["flowloom models list", "flowloom models list --json"]),
    ("models pull", ["flowloom models pull", "flowloom models pull ~/Downloads/qwen3-4b-q4_k_m.gguf --as qwen3-4b"]),
    ("prune", ["flowloom prune --older 30d --dry-run", "flowloom prune --older 7d --status failed --status cancelled"]),
    (
        "backup",
        ["flowloom backup flowloom-2026-11-22.db", "flowloom backup /backup/flowloom.db --data-dir /srv/flowloom"],
    ),
    (
        "restore",
        [
            "flowloom restore flowloom-2026-11-22.db",
            "flowloom restore /backup/flowloom.db --replace --data-dir /srv/flowloom",
        ],
    ),
    ("help", ["flowloom help", "flowloom help blocks list"]),
    ("doctor", ["flowloom doctor", "flowloom doctor --read-data"]),
    ("man", ["flowloom man ~/.local/share/man/man1", "flowloom man target/man"]),
    ("explain", ["flowloom explain FL0105", "flowloom explain prompt"]),
    (
        "completions",
        [
            "flowloom completions fish > ~/.config/fish/completions/flowloom.fish",
            "flowloom completions zsh > ~/.zfunc/_flowloom",
        ],
    ),
];
