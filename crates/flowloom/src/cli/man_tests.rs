//! Generates the man pages, one for each command, from the same declarations as the help.
//!
//! This is a test so that the generator is no part of the program. `make man` runs it and keeps the pages; they are not
//! in the repository, because the snapshots of the help texts already show every change of their contents.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::help_tests::list_commands;
use super::listing::find_examples;

/// Folder for the pages; without it they are only checked.
const FOLDER_VARIABLE: &str = "FLOWLOOM_MAN_DIR";

#[test]
fn every_command_has_a_man_page() {
    let folder = std::env::var_os(FOLDER_VARIABLE);
    for (path, command) in list_commands() {
        let page = Page { path, command };
        let text = page.render().expect("writing to memory succeeds");
        for section in page.expected_sections() {
            assert!(
                text.contains(&format!("\n.SH {section}\n")),
                "`{}` lacks the section {section}:\n{text}",
                page.path
            );
        }
        if let Some(folder) = &folder {
            let folder = Path::new(folder);
            std::fs::create_dir_all(folder).expect("the folder of the man pages");
            std::fs::write(folder.join(page.file_name()), text).expect("the man page is written");
        }
    }
}

/// The man page of one command.
struct Page {
    /// Such as `blocks list`; empty for the program itself.
    path: String,
    command: Command,
}

impl Page {
    /// Name of the page as of the command in its first line, such as `flowloom-blocks-list`.
    fn title(&self) -> String {
        format!("flowloom {}", self.path).trim_end().replace(' ', "-")
    }

    fn file_name(&self) -> String {
        format!("{}.1", self.title())
    }

    /// The headings of the page, as roff quotes them.
    fn expected_sections(&self) -> Vec<&'static str> {
        let mut sections = vec!["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"GLOBAL OPTIONS\""];
        sections.push(if self.path.is_empty() { "SUBCOMMANDS" } else { "EXAMPLES" });
        sections
    }

    /// The page in roff.
    fn render(&self) -> std::io::Result<String> {
        let source = concat!("flowloom ", env!("CARGO_PKG_VERSION"));
        let man = Man::new(self.command.clone()).title(self.title()).source(source).manual("Flowloom");
        let mut page = Vec::new();
        man.render_title(&mut page)?;
        man.render_name_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        if self.command.has_subcommands() {
            man.render_subcommands_section(&mut page)?;
        }
        man.render_options_section(&mut page)?;
        self.render_examples().to_writer(&mut page)?;
        Ok(String::from_utf8(page).expect("UTF-8"))
    }

    fn render_examples(&self) -> Roff {
        let mut section = Roff::new();
        if let Some(examples) = find_examples(&self.path) {
            section.control("SH", ["EXAMPLES"]).control("nf", []);
            for example in examples {
                section.text([roman(*example)]);
            }
            section.control("fi", []);
        }
        section
    }
}
