//! The names of `$.z` and of the methods of its schemas, for messages about others.

use flowloom_core::diagnostic::find_similar_name;

/// The functions of `$.z`.
const BUILDERS: &str = "string number boolean int null any unknown never undefined void date array object record tuple enum \
    nativeEnum literal union discriminatedUnion intersection nullable optional";

/// The methods of a schema.
const METHODS: &str = "optional nullable nullish default catch describe array or and min max length nonempty int positive \
    nonnegative negative nonpositive gt gte lt lte multipleOf step finite safe email url uuid ip cuid \
    cuid2 ulid nanoid base64 emoji datetime date time regex startsWith endsWith includes trim \
    toLowerCase toUpperCase extend merge pick omit partial deepPartial required keyof strict passthrough \
    catchall exclude extract";

/// Functions and methods of the library behind `$.z` that call a function of the definition.
const CALLING: &str = "refine superRefine transform preprocess pipe custom function lazy instanceof";

/// Describes that `$.z` has no function of this name.
pub(super) fn describe_unknown_builder(name: &str) -> String {
    describe_unknown("$.z", name, BUILDERS)
}

/// Describes that a schema has no method of this name, or none for its type.
pub(super) fn describe_unknown_method(name: &str) -> String {
    describe_unknown("this schema", name, METHODS)
}

fn describe_unknown(owner: &str, name: &str, known: &str) -> String {
    if CALLING.split(' ').any(|calling| calling == name) {
        return format!(
            "{name}() cannot be used: a schema is fixed before the run, and no functions are called for it"
        );
    }
    match find_similar_name(name, known.split(' ')) {
        Some(similar) if similar != name => format!("{owner} has no {name}(); did you mean {similar}()?"),
        Some(_) => format!("{name}() cannot be used with a schema of this type"),
        None => format!("{owner} has no {name}(); it has {}", known.replace(' ', ", ")),
    }
}
