//! The settings that a definition uses: its functions, its MCP servers, the server of its HTTP tools, the aliases of its
//! models, and the addresses that it may reach. A definition that moves to another project takes them along.

use std::collections::HashSet;

use flowloom_tools::HostPort;

/// The declarations in the configuration `text` that a definition with these texts names, as TOML; empty if there are none.
/// `has_tools`: whether the definition may call tools of the server in `[tools]`.
pub fn copy_declarations(text: &str, definition: &[&str], has_tools: bool) -> String {
    let Ok(whole) = text.parse::<toml::Table>() else { return String::new() };
    let is_named = |name: &str| definition.iter().any(|text| text.contains(name));
    let mut copied = toml::Table::new();
    for (table, mark) in [("functions", ""), ("mcp", "::")] {
        let Some(declared) = whole.get(table).and_then(toml::Value::as_table) else { continue };
        let used = declared.iter().filter(|(name, _)| is_named(&format!("{name}{mark}")));
        let used: toml::Table = used.map(|(name, value)| (name.clone(), value.clone())).collect();
        if !used.is_empty() {
            copied.insert(table.to_owned(), used.into());
        }
    }
    if let Some(aliases) = whole.get("models").and_then(|models| models.get("alias")?.as_table()) {
        let used = aliases.iter().filter(|(name, _)| is_named(name));
        let used: toml::Table = used.map(|(name, value)| (name.clone(), value.clone())).collect();
        if !used.is_empty() {
            copied.insert("models".to_owned(), toml::Table::from_iter([("alias".to_owned(), used.into())]).into());
        }
    }
    if let Some(tools) = whole.get("tools").filter(|_| has_tools) {
        copied.insert("tools".to_owned(), tools.clone());
    }
    toml::to_string(&copied).unwrap_or_default()
}

/// The entries of `egress.allow` in the configuration `text` to which addresses in these texts lead.
pub fn list_named_hosts(text: &str, named_in: &[&str]) -> Vec<String> {
    let Ok(whole) = text.parse::<toml::Table>() else { return Vec::new() };
    let allowed = whole.get("egress").and_then(|egress| egress.get("allow")?.as_array());
    let entries = allowed.into_iter().flatten().filter_map(toml::Value::as_str);
    let named: HashSet<HostPort> = named_in.iter().flat_map(|text| list_addresses(text)).collect();
    entries
        .filter(|entry| HostPort::parse(entry).is_ok_and(|entry| named.contains(&entry)))
        .map(str::to_owned)
        .collect()
}

/// The hosts with their ports of the HTTP addresses in a text.
fn list_addresses(text: &str) -> impl Iterator<Item = HostPort> {
    let ends = |c: char| c.is_whitespace() || "/?#\\\"'`<>()[]{}$,;".contains(c);
    text.match_indices("://").filter_map(move |(at, separator)| {
        let port = match &text[..at] {
            before if before.ends_with("https") => 443,
            before if before.ends_with("http") => 80,
            _ => return None,
        };
        let rest = &text[at + separator.len()..];
        let bracketed = rest.strip_prefix('[').and_then(|inner| inner.find(']')).map_or(0, |end| end + 2);
        let end = rest.get(bracketed..)?.find(ends).map_or(rest.len(), |end| bracketed + end);
        let authority = rest[..end].rsplit('@').next()?;
        HostPort::parse(authority).or_else(|_| HostPort::parse(&format!("{authority}:{port}"))).ok()
    })
}

/// The files that declarations name: arguments of programs that are started, and workflows that are functions. Whether they
/// exist is not checked.
pub fn list_declared_files(declarations: &str) -> Vec<String> {
    let Ok(whole) = declarations.parse::<toml::Table>() else { return Vec::new() };
    let rows = |table: &str| {
        let rows = whole.get(table).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>()
    };
    let mut files = Vec::new();
    for row in rows("mcp") {
        files.extend(row.get("command").and_then(toml::Value::as_str).map(str::to_owned));
        let arguments = row.get("args").and_then(toml::Value::as_array).into_iter().flatten();
        files.extend(arguments.filter_map(toml::Value::as_str).map(str::to_owned));
    }
    for row in rows("functions") {
        files.extend(row.get("workflow").and_then(toml::Value::as_str).map(str::to_owned));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
default_model = "openai:gpt-4o"
[functions."shop::find"]
url = "https://shop.example/find"
[functions."shop::order"]
url = "https://shop.example/order"
[mcp.calc]
command = ["calc"]
[mcp.crm]
url = "https://crm.example/mcp"
[tools]
base_url = "https://tools.example"
[egress]
allow = ["127.0.0.1:8791", "127.0.0.1:5432", "db:5432", "shop.example:443", "[::1]:9001", "10.0.0.1:80"]
[models.alias]
fast = "openai:gpt-4o-mini"
"#;

    #[test]
    fn a_definition_takes_along_what_it_names() {
        let copied = copy_declarations(CONFIG, &[r#"{"functionId": "shop::find", "x": "calc::add"}"#], false);
        assert_eq!(
            copied,
            "[functions.\"shop::find\"]\nurl = \"https://shop.example/find\"\n\n[mcp.calc]\ncommand = [\"calc\"]\n"
        );
        assert_eq!(copy_declarations(CONFIG, &["nothing"], true), "[tools]\nbase_url = \"https://tools.example\"\n");
        assert_eq!(copy_declarations(CONFIG, &["nothing"], false), "");
        let files = "[mcp.a]\ncommand = \"python3\"\nargs = [\"a.py\"]\n[functions.b]\nworkflow = \"b.json\"\n";
        assert_eq!(list_declared_files(files), ["python3", "a.py", "b.json"]);
        assert_eq!(copy_declarations("not TOML", &["shop::find"], true), "");
        assert_eq!(
            copy_declarations(CONFIG, &["model: fast"], false),
            "[models.alias]\nfast = \"openai:gpt-4o-mini\"\n"
        );
        let texts =
            ["{\"url\": \"http://127.0.0.1:8791/x\"} (feedback)", "https://me@shop.example/ http://[::1]:9001?a"];
        assert_eq!(list_named_hosts(CONFIG, &texts), ["127.0.0.1:8791", "shop.example:443", "[::1]:9001"]);
        assert!(
            list_named_hosts(CONFIG, &["http://10.0.0.12/", "http://10.0.0.1.example", "ftp://db:5432"]).is_empty()
        );
        assert!(list_named_hosts("", &texts).is_empty());
    }
}
