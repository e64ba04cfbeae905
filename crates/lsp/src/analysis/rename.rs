//! Another name for a thing, at all of its places.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::write_json;
use flowloom_core::value::Value;
use flowloom_formats::markdown::can_name_variable;

use super::definition::{Definition, IndexedFile};
use super::field_reads::HiddenReads;
use super::index::Body;
use super::json_names::list_given_names;
use super::names::{Name, NameKind, Role};

/// A replacement in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The path of the file.
    pub file: String,
    /// The replaced text.
    pub span: Span,
    /// The new text.
    pub text: String,
}

/// The name at byte `offset` of a file of the definition, if it can be renamed.
pub fn find_renamable<'d>(definition: &'d Definition, file: &'d IndexedFile, offset: usize) -> Option<&'d Name> {
    file.index.find_names(offset).find(|name| can_be_renamed(definition, name))
}

/// Whether a name can be renamed: all of its uses can be found, and the definition itself gives it its meaning. Built-in and
/// stored blocks, and what a format provides, have their names from elsewhere.
fn can_be_renamed(definition: &Definition, name: &Name) -> bool {
    let is_declared = || definition.find_origins(name).next().is_some();
    let format = definition.main().index.format;
    let is_given = || format.is_some_and(|format| list_given_names(format).iter().any(|given| given.text == name.text));
    match name.kind {
        NameKind::Variable => is_declared() && !is_given(),
        NameKind::Block => is_declared(),
        kind => kind.can_be_renamed(),
    }
}

/// The replacements that give a name another text. Fails if the new name cannot be one, or is taken.
pub fn rename(definition: &Definition, name: &Name, new: &str) -> Result<Vec<Replacement>, String> {
    check_new_name(definition, name, new)?;
    check_uses(definition, name)?;
    check_computed_names(definition, name)?;
    check_expressions(definition, name, new)?;
    let mut replacements = Vec::new();
    for place in definition.find_places(name) {
        let text = match (place.name.is_shorthand, place.name.role) {
            (true, Role::Read) => format!("{}: {new}", name.text),
            (true, _) => format!("{new}: {}", name.text),
            (false, _) => match &place.file.index.body {
                // Inside of quotes.
                Body::Json(_) => write_json(&Value::from(new)).trim_matches('"').to_owned(),
                Body::Markdown(_) => new.to_owned(),
            },
        };
        replacements.push(Replacement { file: place.file.path.clone(), span: place.name.span, text });
    }
    Ok(replacements)
}

fn check_new_name(definition: &Definition, name: &Name, new: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_identifier = !new.is_empty() && new.chars().all(is_word) && !new.starts_with(|c: char| c.is_ascii_digit());
    let needs_identifier = matches!(name.kind, NameKind::Variable | NameKind::Field)
        || (name.kind == NameKind::Node && definition.main().index.is_pipeline());
    if needs_identifier && !is_identifier {
        return Err(format!("{new:?} cannot be a name: write letters, digits and _, and no digit first"));
    }
    let is_in_expressions = needs_identifier && matches!(definition.main().index.body, Body::Markdown(_));
    if is_in_expressions && !can_name_variable(new) {
        return Err(format!("{new:?} cannot be a name: in an expression it means something of its own"));
    }
    if new.trim().is_empty() || new.contains(['/', '\\', '"', '\n']) {
        return Err(format!("{new:?} cannot be a name: it is empty, or has a quotation mark or a slash"));
    }
    let wanted = Name { text: new.to_owned(), ..name.clone() };
    match definition.find_places(&wanted).next() {
        Some(_) if new != name.text => Err(format!("there is a {} {new} already", name.kind.describe())),
        _ => Ok(()),
    }
}

/// Fails if an expression that reads a name has another thing with the new name, such as a parameter of a function: that
/// one would be meant.
fn check_expressions(definition: &Definition, name: &Name, new: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    for place in definition.find_places(name).filter(|_| new != name.text) {
        let Body::Markdown(document) = &place.file.index.body else { continue };
        let at = place.name.span.start;
        let around = document.expressions.iter().filter(|one| one.span.start <= at && at < one.span.end());
        let texts = around.filter_map(|one| place.file.index.text.get(one.span.start..one.span.end()));
        if texts.flat_map(|text| text.split(|c| !is_word(c))).any(|word| word == new) {
            return Err(format!("an expression that reads {} has a {new} of its own", name.text));
        }
    }
    Ok(())
}

/// Fails if a variable may be one whose name the run computes: that use would keep the earlier name. What a computed name
/// reads itself is found.
fn check_computed_names(definition: &Definition, name: &Name) -> Result<(), String> {
    if name.kind != NameKind::Variable {
        return Ok(());
    }
    for file in &definition.files {
        let text = &file.index.text;
        let is_read_in = |span: Span| {
            definition.find_places(name).any(|place| {
                place.file == file && span.start <= place.name.span.start && place.name.span.end() <= span.end()
            })
        };
        let meant = file.index.computed.iter().find(|one| one.can_be(text, &name.text) && !is_read_in(one.span));
        if let Some(computed) = meant {
            let written = text.get(computed.span.start..computed.span.end()).unwrap_or_default();
            let line = file.index.lines.find_line(computed.span.start) + 1;
            return Err(format!(
                "the run computes the name of a variable in line {line}, \"{written}\", and that may be {}: such a use \
                 cannot be found; write the name there, or change it by hand",
                name.text
            ));
        }
    }
    Ok(())
}

/// Fails if a name may have uses that cannot be found: results inside a block are fields of the block's own result.
fn check_uses(definition: &Definition, name: &Name) -> Result<(), String> {
    let is_result = definition.find_origins(name).any(|place| place.name.about.origin.starts_with("result of"));
    match definition.block_results.find_hidden_reads(name.scope).filter(|_| is_result) {
        None => Ok(()),
        Some(HiddenReads::Loop) => {
            Err(format!("{} is a field of each iteration, and its uses outside of the loop cannot be found", name.text))
        }
        Some(HiddenReads::Whole(block)) => {
            Err(format!("{} is a field of {block}, and an expression reads the whole of {block}", name.text))
        }
    }
}
