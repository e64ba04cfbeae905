//! Signatures: no function takes a tuple in place of two parameters or a struct.

use structure::files::{list_files, read_text, relative_path};
use structure::signatures::{Parameter, declared_parameters};
use structure::source::blank_text;

#[test]
fn no_parameter_is_a_tuple() {
    let mut problems = Vec::new();
    for file in ["crates", "tests", "bench"].iter().flat_map(|folder| list_files(folder, "rs")) {
        let code = blank_text(&read_text(&file));
        for Parameter { text, line } in declared_parameters(&code).into_iter().filter(Parameter::is_tuple) {
            problems.push(format!("{}:{line}: {text}", relative_path(&file)));
        }
    }
    assert!(problems.is_empty(), "use two parameters or a struct:\n{}", problems.join("\n"));
}
