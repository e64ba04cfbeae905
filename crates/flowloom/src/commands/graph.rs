//! `flowloom graph`: draws a definition.

use crate::cli::{Global, GraphArgs};
use crate::config::Config;
use crate::draw::draw;
use crate::failure::{Failure, Outcome};
use crate::source::{self, Reading};

pub(crate) fn graph(global: &Global, arguments: &GraphArgs) -> Outcome {
    let config = Config::load(global)?;
    let format = source::format(arguments.definition.as_deref())?;
    let source = source::load(&arguments.file, &Reading { config: &config, format, lenient: arguments.lenient });
    let Some(plan) = &source.compiled.plan else {
        eprint!("{}", source::render(&source));
        return Ok(2);
    };
    let drawing = draw(plan, arguments.format)
        .map_err(|why| Failure::usage(format!("{} cannot be drawn: {why}", arguments.file.display())))?;
    print!("{drawing}");
    Ok(0)
}
