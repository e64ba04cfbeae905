//! The file `.env` of a project: variables of the environment, such as keys. It comes with the project, so it must not decide
//! which code the system's programs load.

/// Starts of the names of variables by which loaders and interpreters find code.
const SYSTEM_PREFIXES: [&str; 6] = ["LD_", "DYLD_", "GLIBC_", "PYTHON", "PERL5", "RUBY"];

/// The names of other variables that decide which programs run, or what they run first.
const SYSTEM_NAMES: [&str; 8] = ["PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "NODE_OPTIONS", "GCONV_PATH"];

/// Whether the loader of the system or interpreters obey a variable.
pub(super) fn is_system_variable(name: &str) -> bool {
    SYSTEM_NAMES.contains(&name) || SYSTEM_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The variables in a text. Fails with the line that cannot be parsed, from 1.
pub(super) fn read_variables(text: &str) -> Result<Vec<(String, String)>, usize> {
    let read = dotenvy::from_read_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let variables = read.map_err(|error| match error {
        dotenvy::Error::LineParse(broken, _) => find_line(text, broken.lines().next().unwrap_or_default()),
        _ => 1,
    })?;
    match variables.iter().find(|(_, value)| value.contains('\0')) {
        Some((name, _)) => Err(find_line(text, name)),
        None => Ok(variables),
    }
}

/// The first line that contains a text, from 1.
fn find_line(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).unwrap_or_default() + 1
}

/// Sets the variables that are not set yet. Must be called while the process has one thread.
pub(super) fn set_variables(variables: &[(String, String)]) -> Result<(), dotenvy::Error> {
    let lines: String = variables.iter().map(|(name, value)| format!("{name}={}\n", quote_value(value))).collect();
    dotenvy::from_read(lines.as_bytes())
}

/// A value as it is written in the file.
fn quote_value(value: &str) -> String {
    let mut quoted = String::from("\"");
    for c in value.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\\' | '"' | '$' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_system_are_recognised() {
        for name in ["LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PATH", "BASH_ENV"] {
            assert!(is_system_variable(name), "{name}");
        }
        for name in ["OPENAI_API_KEY", "FLOWLOOM_DATA_DIR", "LDAP_URL", "PATHS"] {
            assert!(!is_system_variable(name), "{name}");
        }
    }

    #[test]
    fn the_line_that_cannot_be_parsed_is_found() {
        assert_eq!(read_variables("A=1\nnothing here\n"), Err(2));
        assert_eq!(read_variables("A=1\nB=x\0y\n"), Err(2));
        assert_eq!(read_variables("A='b c'\n"), Ok(vec![("A".to_owned(), "b c".to_owned())]));
    }

    #[test]
    fn a_quoted_value_is_read_as_it_was() {
        for value in ["", " a ", "it's \"so\"", "$HOME ${HOME} \\$", "two\nlines\r\n\n", "# no comment", "\\n", "ü=\t'"]
        {
            let read = read_variables(&format!("A={}\nB=1\n", quote_value(value)));
            let expected = vec![("A".to_owned(), value.to_owned()), ("B".to_owned(), "1".to_owned())];
            assert_eq!(read, Ok(expected), "{value:?}");
        }
    }
}
