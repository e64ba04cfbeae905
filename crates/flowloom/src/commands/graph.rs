//! `flowloom graph`: draws a definition.

use flowloom_app::definitions::source::{self, Loader};

use crate::cli::{Global, GraphArgs};
use crate::failure::{Failure, Outcome};
use crate::terminal::diagnostics;
use crate::terminal::draw::draw;

pub(crate) fn graph(global: &Global, arguments: &GraphArgs) -> Outcome {
    let config = global.load_config()?;
    let format = source::format(arguments.definition.as_deref())?;
    let source = Loader { config: &config, format, lenient: arguments.lenient }.compile(&arguments.file);
    let Some(plan) = &source.compiled.plan else {
        eprint!("{}", diagnostics::render(&source));
        return Ok(2);
    };
    let drawing = draw(plan, arguments.format)
        .map_err(|why| Failure::usage(format!("{} cannot be drawn: {why}", arguments.file.display())))?;
    print!("{drawing}");
    Ok(0)
}
