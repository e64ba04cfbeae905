//! The `markdown` format seen from outside: diagnostics, fixes, rejected texts, and unchanged texts.

mod hostile;

use std::path::Path;
use std::time::{Duration, Instant};

use flowloom_core::chat::{Content, MessagePart};
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, apply_fixes, apply_safe_fixes, find_position};
use flowloom_core::plan::{Composite, Inputs, Plan, Step, StepKind};
use flowloom_core::value::Map;
use flowloom_formats::{Compiled, Sources, compile};
use proptest::prelude::*;

fn compile_text(text: &str) -> Compiled {
    let files = [("main.mdx".to_owned(), text.as_bytes().to_vec())].into();
    let functions = vec!["shop::find".to_owned()];
    let sources = Sources { files, functions, source_bytes: 1 << 20, ..Sources::default() };
    compile("main.mdx", &sources, None)
}

fn compile_plan(text: &str) -> Plan {
    let compiled = compile_text(text);
    compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))
}

fn diagnostic_codes(text: &str) -> Vec<(Code, (usize, usize))> {
    let position = |d: &Diagnostic| find_position(text, d.span.start);
    let codes = compile_text(text).diagnostics;
    codes.iter().map(|d| (d.code, (position(d).line, position(d).column))).collect()
}

#[test]
fn every_problem_has_a_code_and_a_place() {
    let gen_text = "<GenText as=\"a\" model=\"m:x\" />";
    let cases: Vec<(String, Code, (usize, usize))> = vec![
        ("Text\n\nA { brace".into(), Code::MarkdownSyntax, (3, 3)),
        ("---\na: [\n---\n\nx\n".into(), Code::FrontmatterSyntax, (2, 1)),
        ("---\ninput:\n  a: {type: txt}\n---\n\nx\n".into(), Code::InputSpec, (3, 13)),
        (format!("Hi {gen_text} there\n"), Code::InlineAction, (1, 4)),
        (format!("- {gen_text}\n"), Code::NestedAction, (1, 3)),
        ("A\n\n<GenText as=\"a\" />\n".into(), Code::ActionAttribute, (3, 2)),
        ("A\n\n<GenText as=\"a\" model=\"m:x\" {...b} />\n".into(), Code::AttributeSyntax, (3, 29)),
        ("Say {1 + nobody} now\n".into(), Code::UnknownName, (1, 10)),
        (format!("A\n\n{gen_text}\n\nB\n\n{gen_text}\n"), Code::RepeatedName, (7, 14)),
        ("Say {1 1}\n".into(), Code::ExpressionSyntax, (1, 8)),
        ("Say {new Date()}\n".into(), Code::ExpressionUnsupported, (1, 6)),
        ("Say {[].eval}\n".into(), Code::RestrictedName, (1, 9)),
        ("Say {async () => 1}\n".into(), Code::AsyncFunction, (1, 6)),
        ("Say {include('x')}\n".into(), Code::IncludeFailed, (1, 6)),
        ("Say <b>x</b>\n".into(), Code::UnknownElement, (1, 5)),
        ("<GenText as=\"a\" model=\"m:x\">\n  Text\n</GenText>\n".into(), Code::IgnoredContent, (1, 2)),
        (format!("{} x\n", "> ".repeat(70)), Code::TooComplex, (1, 1)),
        ("A\n\n<GenText as=\"a\" model=\"m:x\" tools={['x']} />\n".into(), Code::UnknownTool, (3, 29)),
        ("A\n\n<GenObject as=\"a\" model=\"m:x\" schema={$.z.odd()} />\n".into(), Code::SchemaSyntax, (3, 39)),
        ("A\n\n<GenText as=\"a\" model=\"m:x\" modle=\"y\" />\n".into(), Code::IgnoredKey, (3, 29)),
        ("Say {[1].join().map(x => x)}\n".into(), Code::NotAMethod, (1, 17)),
        ("> only a comment\n".into(), Code::NothingToRun, (1, 1)),
        (format!("Say {{<>x {gen_text} y</>}}\n"), Code::ActionAsText, (1, 10)),
    ];
    for (text, code, place) in cases {
        assert!(diagnostic_codes(&text).contains(&(code, place)), "{text:?}: {:?}", diagnostic_codes(&text));
    }
}

#[test]
fn syntax_errors_are_explained_and_hide_no_others() {
    let cases = [
        ("<GenText as=z model=\"m:x\" />", "the value of the attribute as of <GenText> is neither", "write as=\"z\""),
        ("<GenText max=5 />", "the value of the attribute max of <GenText> is neither", "write max={5}"),
        ("<GenText as=>", "the attribute as of <GenText> has no value", "write as=\"text\" or as={expression}"),
        ("<GenText as=“z” />", "the value of the attribute as of <GenText> is neither", "write as=\"z\""),
        ("<GenText as=\"z\", model=\"m:x\" />", "found ',' in <GenText>", "separate attributes by spaces"),
        ("<GenText as:\"z\" />", "found '\"' in <GenText>", "write as= with an equals sign"),
        (
            "<Loop as=\"z\", provide={{ d: 1 }}>\n\nText\n\n</Loop>",
            "found ',' in <Loop>",
            "separate attributes by spaces",
        ),
        ("Some <i>text", "<i> is not closed in its paragraph", "an element that is opened must be closed"),
        ("A line<br>\nand another", "<br> is not closed in its paragraph", "write <br />"),
        ("<Loop as=\"z\">", "<Loop> is not closed", "an element that is opened must be closed"),
        ("</Loop>", "</Loop> closes nothing", "write <Loop> before it"),
        ("Some <a>text</i>", "found </i> where </a> was expected", "an element that is opened must be closed"),
        ("Some <a>*<i>text*</a>", "<i> is not closed", "an element that is opened must be closed"),
        ("1 <2", "< begins a tag, and '2' cannot be in its name", "write \\< for a sign"),
        ("<!-- x -->", "MDX has no comments between <!-- and -->", "write a comment as a line"),
    ];
    for (mistake, message, help) in cases {
        let text = format!("Hello {{b}}\n\n{mistake}\n\n{{zz}}\n");
        let found = compile_text(&text).diagnostics;
        let errors: Vec<&Diagnostic> = found.iter().filter(|problem| problem.code == Code::MarkdownSyntax).collect();
        let [error] = errors[..] else { panic!("{mistake}: {found:?}") };
        assert!(error.message.starts_with(message), "{mistake}: {}", error.message);
        assert!(error.help.as_ref().is_some_and(|found| found.starts_with(help)), "{mistake}: {:?}", error.help);
        let unknown = found.iter().filter(|problem| problem.code == Code::UnknownName).count();
        assert_eq!(unknown, 2, "{mistake}: {found:?}");
    }
}

#[test]
fn what_is_meant_is_proposed() {
    let cases = [
        ("<Condition />", "did you mean <Cond>?", "<Cond />"),
        ("<If />", "did you mean <Cond>?", "<Cond />"),
        ("<ForEach />", "did you mean <Loop>?", "<Loop />"),
        (
            "<GenObject as=\"o\" model=\"m:x\" output=\"enum\" schema={[\"y\", \"n\"]} />",
            "did you mean enum?",
            "<GenObject as=\"o\" model=\"m:x\" output=\"enum\" enum={[\"y\", \"n\"]} />",
        ),
        (
            "<Loop as=\"l\" until={$.index > 2}>\n\n<GenText as=\"p\" model=\"m:x\" />\n\n</Loop>\n\n{p}",
            "p is a result inside of a block: read it as l.at(-1).p",
            "<Loop as=\"l\" until={$.index > 2}>\n\n<GenText as=\"p\" model=\"m:x\" />\n\n</Loop>\n\n{l.at(-1).p}",
        ),
        (
            "<Cond as=\"c\" if={true}>\n\n<GenText as=\"p\" model=\"m:x\" />\n\n</Cond>\n\n{p}",
            "p is a result inside of a block: read it as c.p",
            "<Cond as=\"c\" if={true}>\n\n<GenText as=\"p\" model=\"m:x\" />\n\n</Cond>\n\n{c.p}",
        ),
    ];
    for (text, help, meant) in cases {
        let text = format!("Text\n\n{text}\n");
        let problems = compile_text(&text).diagnostics;
        assert!(problems.iter().any(|problem| problem.help.as_deref() == Some(help)), "{text}: {problems:?}");
        let fixed = apply_fixes(&text, problems.iter().filter_map(|problem| problem.fix.as_ref())).0;
        assert_eq!(fixed, format!("Text\n\n{meant}\n"));
    }
    let helps = compile_text("<GenObject as=\"o\" model=\"m:x\" schema={5} />")
        .diagnostics
        .into_iter()
        .filter_map(|problem| problem.help);
    assert!(helps.into_iter().any(|help| help.starts_with("write schema={$.z.object(")));
}

/// What a tag that cannot be read may have named is no unknown name.
#[test]
fn names_of_unread_tags_are_known() {
    let text = "<GenText as=z />\n\n{z}\n\n<Loop as=\"l\", provide={{ item: z }}>\n\n{item}\n\n</Loop>\n\n{l}\n";
    let codes: Vec<Code> = diagnostic_codes(text).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, [Code::MarkdownSyntax; 2]);
}

/// The text after its fixes and suggestions, each time of those for the problems that they reveal.
fn apply_all_fixes(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..3 {
        let problems = compile_text(&text).diagnostics;
        text = apply_fixes(&text, problems.iter().filter_map(|problem| problem.fix.as_ref())).0;
    }
    text
}

#[test]
fn the_broken_examples_of_the_documentation_are_repaired() {
    let nested = "<Loop\nas=\"outer\"\nuntil={$.index === items.length}\nprovide{{ items }}>\n<Loop\nas=\"inner\"\n\
                  until={$.index === items[$outer.index].subitems.length}\nprovide={{\nitem: items[$outer.index],\n\
                  subitem: items[$outer.index].subitems[$.index],\n}}>\nItem: {item.name}\nSubitem: {subitem.name}\n\
                  </Loop>\n</Loop>\n";
    assert!(diagnostic_codes(nested).contains(&(Code::MarkdownSyntax, (4, 8))), "{:?}", diagnostic_codes(nested));
    let joined = "---\ndata: {instructions: [a]}\n---\n\n{\n// this is a flow expression\n\
                  instructions.join('\\n').map(str => `- ${str}`)\n}\n";
    assert!(diagnostic_codes(joined).contains(&(Code::NotAMethod, (7, 25))), "{:?}", diagnostic_codes(joined));
    assert!(
        apply_all_fixes(joined).contains("instructions.map(str => `- ${str}`).join('\\n')"),
        "{}",
        apply_all_fixes(joined)
    );
    let undeclared = "Write a poem about cats.\n<GenText as=\"poem\" model=\"openai:gpt-4o\" />\n<Loop\nas=\"translations\"\n\
                      until={$.index === langs.length}\nprovide={{\nlanguage: langs[$.index],\noriginal: poem,\n}}>\n\
                      Translate this poem to {language}:\n{original}\n<GenText as=\"poem\" model=\"openai:gpt-4o\" />\n\
                      </Loop>\n";
    assert!(diagnostic_codes(undeclared).contains(&(Code::UnknownName, (5, 20))), "{:?}", diagnostic_codes(undeclared));
    for text in [nested, joined, undeclared] {
        let repaired = apply_all_fixes(text);
        assert!(compile_text(&repaired).plan.is_some(), "{repaired}\n{:?}", compile_text(&repaired).diagnostics);
    }
    assert!(
        apply_all_fixes(undeclared).starts_with("---\ninput:\n  langs: {type: array}\n---\n"),
        "{}",
        apply_all_fixes(undeclared)
    );
}

#[test]
fn a_nearly_right_name_is_suggested() {
    let text = "---\ndata: {mood: glad}\n---\n\nBe {moood}.\n";
    assert_eq!(apply_all_fixes(text), text.replace("moood", "mood"));
}

#[test]
fn no_name_is_changed_or_declared_without_asking() {
    let safe = |text: &str| apply_safe_fixes(text, &compile_text(text).diagnostics).0;
    let texts = [
        "---\ndata: {q: 1, b: 2}\n---\n\nCompare {c} with {b}.\n",
        "---\ndata: {mood: glad}\n---\n\nBe {moood}.\n",
        "Write {topik} about {topic}.\n\n<GenText as=\"t\" model=\"m:x\" />\n",
        "Hi\n\n<GenTxt as=\"a\" />\n\n<GenText as=\"b\" model=\"m:x\" />\n\n{a}\n",
    ];
    for text in texts {
        assert_eq!(safe(text), text);
        assert!(compile_text(text).plan.is_none(), "{text}");
    }
    // A name of one letter resembles no other.
    let problems = compile_text(texts[0]).diagnostics;
    let help = problems.iter().find_map(|problem| problem.help.as_deref());
    assert_eq!(help, Some("declare it in the frontmatter: input: {c: {type: text}}"));
    // What can mean only one thing is still repaired.
    let joined = "---\ndata: {items: [a]}\n---\n\n{items.join(' ').map(x => x)}\n";
    assert_ne!(safe(joined), joined);
}

#[test]
fn an_action_of_a_block_may_have_the_name_of_the_block() {
    let text = "<Loop as=\"x\" until={$x.index === 1}>\n\n<GenText as=\"x\" model=\"m:x\" />\n\n</Loop>\n\n{x[0].x}\n";
    let problems = diagnostic_codes(text);
    assert!(problems.iter().all(|(code, _)| *code != Code::RepeatedName), "{problems:?}");
}

#[test]
fn a_condition_about_the_index_bounds_a_loop() {
    let most = |until: &str| {
        let text = format!(
            "---\ninput: {{n: {{type: text, format: number}}, o: {{type: text, format: number}}}}\n---\n\n<Loop as=\"x\" until={{{until}}} max={{50}}>\n\n<GenText as=\"y\" model=\"m:x\" />\n\n</Loop>\n"
        );
        let mut found = None;
        compile_plan(&text).root.visit(&mut |step: &Step| {
            if let StepKind::Composite(Composite::Loop(looped)) = &step.kind {
                found = Some(looped.most_iterations(|name| (name == "n").then_some(4)));
            }
        });
        found.expect("a loop")
    };
    for (until, iterations) in [
        ("$.index >= 3", 3),
        ("$x.index === 3", 3),
        ("3 == $.index", 3),
        ("$.index > 3", 4),
        ("3 < $.index", 4),
        ("$.last?.y === 'done' || $.index >= 3", 3),
        ("$.last?.y.includes('done') || $.index >= 2", 2),
        ("$.index >= 70", 50),
        ("$.index >= 0", 0),
        ("$.index >= n", 4),
        ("n < $x.index || $.index === 9", 5),
        ("$.last?.y === 'done' || $.index == n", 4),
        // Nothing is known.
        ("$.index >= 3 && $.last.y === 'done'", 50),
        ("$.index === -1", 50),
        ("$.index === 1.5", 50),
        ("$.index <= 3", 50),
        ("$.index >= o", 50),
        ("$.index >= n + 1", 50),
        ("$.last?.y === 3", 50),
    ] {
        assert_eq!(most(until), iterations, "{until}");
    }
}

#[test]
fn functions_of_the_configuration_are_actions_and_tools() {
    let plan = compile_plan(
        "A\n\n<ShopFind as=\"found\" query={1 + 1} all />\n\n<GenText as=\"a\" model=\"m:x\" tools={['shop_find']} />\n",
    );
    let mut kinds = Vec::new();
    plan.root.visit(&mut |step: &Step| kinds.push(step.kind.name()));
    assert_eq!(kinds, ["sequence", "sequence", "say", "call", "say", "say", "agent", "say"]);
    assert_eq!(plan.functions.len(), 2);
}

#[test]
fn examples_compile() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/markdown");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("readable");
        assert_eq!(compile_text(&text).diagnostics, [], "{}", entry.path().display());
        let plan = compile_plan(&text);
        assert!(matches!(plan.inputs, Inputs::Named { .. }) && plan.format == flowloom_formats::markdown::FORMAT);
        count += 1;
    }
    assert!(count >= 3);
}

/// The text of the first message of a plan.
fn first_message_text(plan: &Plan) -> String {
    let mut text = None;
    plan.root.visit(&mut |step: &Step| {
        if let (None, StepKind::Composite(Composite::AppendMessage(append))) = (&text, &step.kind) {
            let Content::Blocks(blocks) = &append.content else { return };
            let parts = Content::render_blocks(blocks, &Map::new()).expect("no expressions");
            let texts: Vec<_> = parts
                .iter()
                .map(|part| match part {
                    MessagePart::Text { text } => text.as_str(),
                    MessagePart::Image { .. } => "",
                })
                .collect();
            text = Some(texts.join("\n\n"));
        }
    });
    text.unwrap_or_default()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a bound on real time is what is tested")]
fn hostile_texts_are_compiled_or_refused_in_bounded_time() {
    // Generous for unoptimised builds; `make bench` applies a tighter bound to the release build.
    let bound = if cfg!(debug_assertions) { Duration::from_secs(60) } else { Duration::from_secs(2) };
    for (name, text) in hostile::hostile_texts() {
        let start = Instant::now();
        let _ = compile_text(&text);
        let took = start.elapsed();
        assert!(took < bound, "{name}: {took:?}");
    }
}

#[test]
fn a_text_beyond_the_limit_is_refused_at_once() {
    assert_eq!(diagnostic_codes(&"word ".repeat(60_000)), [(Code::TooComplex, (1, 1))]);
}

proptest! {
    #[test]
    fn a_text_without_marks_goes_to_the_model_unchanged(text in "[a-z][a-zA-Z0-9_*.,;:!?()&' \u{e4}\u{1f600}-]{0,80}[a-z]") {
        prop_assume!(!text.starts_with("import ") && !text.starts_with("export "));
        let plan = compile_plan(&format!("{text}\n"));
        prop_assert_eq!(first_message_text(&plan), text);
    }

    #[test]
    fn paragraphs_stay_as_they_are(lines in prop::collection::vec("[a-z]{1,8}( [a-z_*]{1,8}){0,4}", 1..5)) {
        let text = lines.join("\n\n");
        prop_assume!(!text.contains("import ") && !text.contains("export "));
        prop_assert_eq!(first_message_text(&compile_plan(&format!("{text}\n"))), text);
    }

    #[test]
    fn nothing_makes_the_compiler_panic(text in "[-#>*_`~\\[\\](){}<>/!|=.:\"'$&a-c01 \n]{0,120}") {
        let _ = compile_text(&text);
    }

    #[test]
    fn no_expression_makes_the_compiler_panic(text in "[-+*/%=<>!?.:,&|^~(){}\\[\\]'\"`$a-c01 \n]{0,60}") {
        let _ = compile_text(&format!("---\ndata: {{a: 1, b: [1], c: {{a: x}}}}\n---\n\nx {{{text}}} y\n"));
    }
}

#[test]
fn prompts_are_found_in_the_folders_of_the_project() {
    let flow = "{include('style')}\n\n<GenText as=\"a\" model=\"m:x\" />\n";
    let compile_in = |entry: &str, prompt: Option<&str>| {
        let mut files = vec![(entry.to_owned(), flow.as_bytes().to_vec())];
        files.extend(prompt.map(|prompt| (prompt.to_owned(), b"Be short.".to_vec())));
        compile(
            entry,
            &Sources { files: files.into_iter().collect(), source_bytes: 1 << 20, ..Sources::default() },
            None,
        )
    };
    let places = [
        ("a.mdx", "style.mdx"),
        ("a.mdx", "prompts/style.mdx"),
        ("flows/a.mdx", "prompts/style.mdx"),
        ("/p/flows/a.mdx", "/p/prompts/style.mdx"),
    ];
    for (entry, prompt) in places {
        let compiled = compile_in(entry, Some(prompt));
        assert!(compiled.plan.is_some(), "{entry}: {:?}", compiled.diagnostics);
    }
    assert_eq!(compile_in("a.mdx", None).missing_files, ["style.mdx", "prompts/style.mdx"]);
    assert!(compile_in("workflows/a.mdx", Some("workprompts/style.mdx")).plan.is_none());
}
