//! MCP servers, whose tools are functions named `SERVER::tool`. The tools of a server are known only after it has been
//! queried, which the program does before a run and never for a check.

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};

use crate::problems::Problems;
use crate::sources::{Approval, Sources, ToolServer};

impl ToolServer {
    /// Whether a person must approve calls of `tool`.
    pub(crate) fn needs_approval(&self, tool: &str) -> bool {
        match &self.approval {
            Approval::Never => false,
            Approval::Always => true,
            Approval::Tools(tools) => tools.iter().any(|name| name == tool),
        }
    }

    /// The tool's declaration from the server; `None` if the server has not been queried or lacks the tool.
    pub(crate) fn find_tool(&self, tool: &str) -> Option<&ToolDeclaration> {
        self.tools.iter().flatten().find(|declared| declared.name == tool)
    }

    /// Reports an unknown tool; does nothing if the server has not been queried.
    pub(crate) fn report_unknown_tool<'p>(
        &self,
        tool: &str,
        span: Span,
        problems: &'p mut Problems,
    ) -> Option<&'p mut Diagnostic> {
        let tools = self.tools.as_ref()?;
        if self.find_tool(tool).is_some() {
            return None;
        }
        let name = &self.name;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let meant = problems.find_similar(tool, names.iter().copied());
        let diagnostic =
            problems.add_error(Code::UnknownTool, span, format_args!("the MCP server {name} has no tool {tool}"));
        diagnostic.help = Some(match meant {
            Some(meant) => format!("did you mean {name}::{meant}?"),
            None => format!("it has {}", names.join(", ")),
        });
        Some(diagnostic)
    }
}

impl Sources {
    /// The server and tool that `function` refers to. A configured function with the same name takes precedence.
    pub(crate) fn server_of<'a>(&self, function: &'a str) -> Option<(&ToolServer, &'a str)> {
        let (server, tool) = function.split_once("::").filter(|(_, tool)| !tool.is_empty())?;
        let found = self.servers.iter().find(|known| known.name == server)?;
        (!self.configured.iter().any(|name| name == function)).then_some((found, tool))
    }

    /// The servers that must say which tools they have before a plan can run that offers `functions` to models.
    pub(crate) fn required_servers(&self, functions: Vec<&str>) -> Vec<String> {
        let unasked = functions.into_iter().filter_map(|function| self.server_of(function));
        let mut names: Vec<String> =
            unasked.filter(|(server, _)| server.tools.is_none()).map(|(server, _)| server.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The name of a function in the form that models accept.
pub fn tool_name(function: &str) -> String {
    function.replace("::", "_").chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
