//! The declarations that a definition uses: its functions, its MCP servers, and the server of its HTTP tools. A definition
//! that moves to another project takes them along.

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
    if let Some(tools) = whole.get("tools").filter(|_| has_tools) {
        copied.insert("tools".to_owned(), tools.clone());
    }
    toml::to_string(&copied).unwrap_or_default()
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
    }
}
