//! The fingerprint of the configuration: short hashes of the settings that can change the result of a run. A server
//! continues the runs of dead workers only if they were started under the same ones.

use std::collections::BTreeMap;

use flowloom_core::hash::Hash;

/// Number of hexadecimal digits of the hash of a part.
const PART_DIGITS: usize = 8;

/// The parts of the fingerprint, with the settings and tables that each covers.
const PARTS: [(&str, &[&str]); 6] = [
    ("agents", &["agents"]),
    ("egress", &["egress"]),
    ("files", &["files"]),
    ("functions", &["functions"]),
    ("models", &["default_model", "models", "providers"]),
    ("tools", &["tools", "mcp", "search", "sandbox"]),
];

/// The fingerprint of a configuration file: `part=hash` for each part that it sets, separated by commas.
pub(super) fn fingerprint_file(text: &str) -> String {
    let top = text.parse::<toml::Table>().unwrap_or_default();
    let part = |(name, settings): &(&str, &[&str])| {
        let set: Vec<String> = settings
            .iter()
            .filter_map(|setting| Some(format!("{setting}={}", to_canonical_text(top.get(*setting)?))))
            .collect();
        let digits = Hash::of_bytes(set.join(";").as_bytes()).to_string();
        (!set.is_empty()).then(|| format!("{name}={}", &digits[..PART_DIGITS.min(digits.len())]))
    };
    PARTS.iter().filter_map(part).collect::<Vec<_>>().join(",")
}

/// A value as text that does not depend on the order of keys and the layout of the file.
fn to_canonical_text(value: &toml::Value) -> String {
    match value {
        toml::Value::Table(table) => {
            let sorted: BTreeMap<&String, String> =
                table.iter().map(|(key, value)| (key, to_canonical_text(value))).collect();
            format!("{sorted:?}")
        }
        toml::Value::Array(items) => format!("{:?}", items.iter().map(to_canonical_text).collect::<Vec<_>>()),
        other => other.to_string(),
    }
}

/// The parts in which two fingerprints differ.
pub fn list_differences(one: &str, other: &str) -> Vec<String> {
    let parse = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.split(',').filter_map(|part| part.split_once('='));
        pairs.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect()
    };
    let (one, other) = (parse(one), parse(other));
    let names = PARTS.iter().map(|(name, _)| *name);
    names.filter(|name| one.get(*name) != other.get(*name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_covers_what_can_change_a_result() {
        let strict = fingerprint_file("default_model = \"scripted:echo\"\n[egress]\nallow = []\n");
        assert!(strict.starts_with("egress=") && strict.contains(",models="), "{strict}");
        let lax = fingerprint_file("[egress]\nallow = [\"10.0.0.1:80\"]\n[retention]\nfailed = \"1d\"\n");
        assert_eq!(list_differences(&strict, &lax), ["egress", "models"]);
    }

    #[test]
    fn order_layout_and_other_settings_do_not_count() {
        let one =
            fingerprint_file("[functions.f]\nurl = \"http://x\"\nmethod = \"GET\"\n[egress]\nallow = [\"x:1\"]\n");
        let other = fingerprint_file(
            "lease_ms = 9\n# comment\n[egress]\nallow = [ 'x:1' ]\n[functions]\nf = { method = \"GET\", url = \"http://x\" }\n",
        );
        assert_eq!(one, other);
        assert_eq!((fingerprint_file(""), fingerprint_file("durability = \"full\"")), (String::new(), String::new()));
    }
}
