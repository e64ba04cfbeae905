//! `flowloom user`: reads and writes the profile of a user, which pipelines read as `user`.

use flowloom_app::engines::App;
use flowloom_core::event::MemoryWrite;
use flowloom_core::render;
use flowloom_runtime::journal::{Journal as _, profile_holder};

use super::print;
use crate::cli::{Global, UserCommand};
use crate::failure::Outcome;
use crate::inputs;

pub(crate) async fn user(global: &Global, command: UserCommand) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let user = match command {
        UserCommand::Set { values, user } => {
            let mut writes = Vec::new();
            for value in &values {
                let (key, value) = inputs::pair(value)?;
                writes.push(MemoryWrite { key: key.to_owned(), value: Some(value) });
            }
            app.store.remember(profile_holder(&user), writes).await?;
            user
        }
        UserCommand::Show { user } => user,
    };
    let profile = app.store.memories(&profile_holder(&user)).await?;
    if global.json {
        print(&profile);
        return Ok(0);
    }
    if profile.is_empty() {
        eprintln!("{user} has no profile; set one with: flowloom user set name=Ada city=London");
    }
    for (name, value) in &profile {
        println!("{name} = {}", render::text(value, render::Style::Json));
    }
    Ok(0)
}
