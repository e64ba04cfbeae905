//! The man pages, one for each command, from the same declarations as the help.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::build_command;
use super::exit_codes::find_exit_codes;
use super::listing::find_examples;

/// Writes the man pages of all commands to a folder. Returns how many there are.
pub(crate) fn write_man_pages(folder: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let pages = list_pages();
    for page in &pages {
        std::fs::write(folder.join(page.file_name()), page.render()?)?;
    }
    Ok(pages.len())
}

/// The pages of the program and of all commands.
fn list_pages() -> Vec<Page> {
    let mut root = build_command();
    root.build();
    let mut pages = Vec::new();
    collect_pages(&root, "", &mut pages);
    pages
}

fn collect_pages(command: &Command, path: &str, pages: &mut Vec<Page>) {
    pages.push(Page { path: path.to_owned(), command: command.clone() });
    for subcommand in command.get_subcommands() {
        collect_pages(subcommand, format!("{path} {}", subcommand.get_name()).trim_start(), pages);
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

    /// The page in roff.
    fn render(&self) -> io::Result<Vec<u8>> {
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
        self.render_exit_codes().to_writer(&mut page)?;
        self.render_examples().to_writer(&mut page)?;
        Ok(page)
    }

    fn render_exit_codes(&self) -> Roff {
        let mut section = Roff::new();
        let Some(codes) = find_exit_codes(&self.path) else { return section };
        section.control("SH", ["EXIT STATUS"]);
        for row in codes {
            section.control("TP", []).text([roman(row.code.to_string())]).text([roman(row.meaning)]);
        }
        section
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_man_page() {
        for page in list_pages() {
            let text = String::from_utf8(page.render().expect("writing to memory succeeds")).expect("UTF-8");
            let last = if page.path.is_empty() { "SUBCOMMANDS" } else { "EXAMPLES" };
            // The headings as roff quotes them.
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"GLOBAL OPTIONS\"", last] {
                assert!(text.contains(&format!("\n.SH {section}\n")), "`{}` lacks {section}:\n{text}", page.path);
            }
        }
    }
}
