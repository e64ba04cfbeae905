//! `flowloom user`: reads and writes the profile of a user, which pipelines read as `user`.

use flowloom_app::engines::App;
use flowloom_core::event::MemoryWrite;
use flowloom_core::render;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::journal::{Journal as _, profile_namespace};
use flowloom_store::{Actor, PersonalWrites};

use super::results::print_json;
use crate::cli::{Global, UserCommand};
use crate::failure::CommandResult;
use crate::inputs;
use crate::style::{Style, paint_text};

pub(crate) async fn manage_user(global: &Global, command: UserCommand) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let user = match command {
        UserCommand::Set { values, user } => {
            let mut writes = Vec::new();
            for value in &values {
                let (key, value) = inputs::parse_entry(value)?;
                writes.push(MemoryWrite { key: key.to_owned(), value: Some(value) });
            }
            let written = PersonalWrites { user: user.clone(), is_profile: true, writes, limit_bytes: None };
            app.store.write_memory_as(written, &Actor::command_line(), SystemClock.now_ms()).await?;
            user
        }
        UserCommand::Show { user } => user,
    };
    let profile = app.store.read_memories(&profile_namespace(&app.store.owner_of(&user))).await?;
    if global.json {
        print_json(&profile);
        return Ok(0);
    }
    if profile.is_empty() {
        eprintln!("{user} has no profile; set one with: flowloom user set name=Ada city=London");
    }
    for (name, value) in &profile {
        println!("{} = {}", paint_text(Style::Heading, name), render::render_text(value, render::TextStyle::Json));
    }
    Ok(0)
}
