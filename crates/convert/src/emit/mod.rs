//! The writers of the formats, and what they have in common.

mod agents;
mod conversation;
mod flow;
mod markdown;
mod markdown_calls;
mod markdown_inputs;
mod markdown_text;
mod parts;
mod pipeline;
mod pipeline_prompts;
mod references;
mod steps;

use std::collections::{HashMap, HashSet};

use flowloom_core::chat::GenerateOptions;
use flowloom_core::plan::{Format, Generate, Plan};
use flowloom_formats::{
    StopFlag, agent, flow as flow_format, graph, markdown as markdown_format, pipeline as pipeline_format,
    steps as steps_format,
};

use crate::calls::Call;
use crate::draft::{Body, FailureRule, Item, ItemKind, Prompt, list_variables, read_body};
use crate::names::{Names, chains_outputs};
use crate::report::Report;
use crate::turns::{read_agent, read_machine};

/// The input and the state of a writer.
pub(crate) struct Emitter<'p> {
    pub(crate) plan: &'p Plan,
    /// The text of the definition.
    pub(crate) source: &'p str,
    pub(crate) report: Report,
    pub(crate) names: Names,
    /// Names of the declared inputs.
    pub(crate) inputs: HashSet<String>,
    /// Inputs whose value is a part of the result, by name.
    pub(crate) fixed: HashMap<String, String>,
    /// The variables that steps set.
    pub(crate) variables: HashSet<String>,
    /// Rows of the frontmatter for inputs that the definition does not declare; `None` in other formats than Markdown.
    pub(crate) added_inputs: Option<Vec<String>>,
    /// Ends the conversion when it is set.
    pub(crate) stop: &'p StopFlag,
    /// Whether comments name the losses.
    pub(crate) has_comments: bool,
    /// Whether the present step is a member of a fan-out, whose output does not become the next input.
    pub(crate) is_member: bool,
    /// Whether later members of the present fan-out see the variables as they were before it.
    pub(crate) has_later_members: bool,
    /// Whether the present step runs once in the result, but in the definition as often as a loop or a choice says.
    pub(crate) is_unrolled: bool,
    /// Whether an output has replaced the input of the step list that is written.
    pub(crate) is_input_replaced: bool,
    /// The parts of the present step that are the same in the result, each with its kind.
    pub(crate) kept_parts: Vec<(&'static str, String)>,
    /// Whether a text of the present step is another one in the result.
    pub(crate) has_other_text: bool,
    /// How the present text can read answers.
    pub(crate) reads: AnswerReads,
}

/// How a text of the result can read the text of an answer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AnswerReads {
    /// The whole, or a part as the format reads parts of texts.
    #[default]
    Parts,
    /// The whole only: reading a part fails there.
    Whole,
    /// The whole, or its length.
    Length,
}

/// Properties of a step, besides its action, that a format can express.
#[derive(Clone, Copy, Default)]
pub(crate) struct Abilities {
    pub(crate) timeout: bool,
    pub(crate) retry: bool,
    pub(crate) skip_errors: bool,
    pub(crate) condition: bool,
    pub(crate) answer: bool,
}

/// Writes a plan in another format; `None` if the format has nothing for it, which is reported.
pub(crate) fn emit_plan(emitter: &mut Emitter<'_>, to: Format) -> Option<String> {
    let plan = emitter.plan;
    let is_prompted = !matches!(to, agent::FORMAT | graph::FORMAT);
    let items = match (read_body(plan), to) {
        (Body::Agent(single), graph::FORMAT) => return emitter.emit_agent(single, to),
        (Body::Agent(single), _) => read_agent(plan, single),
        (Body::Machine(machine), to) => match conversation::find_only_turn(machine) {
            Some(turn) if to == agent::FORMAT => return Some(emitter.emit_machine(machine, turn, to)),
            _ => read_machine(plan, machine, &mut emitter.report),
        },
        (Body::Items(items), _) => items,
    };
    emitter.variables = list_variables(&items).into_iter().map(str::to_owned).collect();
    if plan.thread.is_some() && is_prompted {
        let message =
            "the conversation: a model sees the message or the answer before it, and nothing of earlier turns";
        emitter.report.add_loss(plan.root.span, message);
    }
    if chains_outputs(plan) {
        emitter.check_chained_output(&items);
    }
    if is_prompted {
        emitter.report_other_output(to);
    }
    match to {
        flow_format::FORMAT => emitter.emit_flow(&items),
        steps_format::FORMAT => emitter.emit_steps(&items),
        markdown_format::FORMAT => emitter.emit_markdown(&items),
        pipeline_format::FORMAT => emitter.emit_pipeline(&items),
        _ => emitter.emit_agents(&items, to),
    }
}

impl Emitter<'_> {
    /// Reports that the output has more or less text, since only Markdown workflows output what they ask, or is an object.
    fn report_other_output(&mut self, to: Format) {
        if to == pipeline_format::FORMAT {
            let message = "each prompt is a block with code, which needs the sandbox, and the output is an object with the \
                           answer as its field text";
            self.report.add_difference(self.plan.root.span, message);
        }
        let message = match (self.plan.format == markdown_format::FORMAT, to == markdown_format::FORMAT) {
            (false, true) => "the output: the whole text with its answers, and no longer the last answer alone",
            (true, false) => "the output: the last answer alone, and no longer the whole text with its answers",
            _ => return,
        };
        self.report.add_difference(self.plan.root.span, message);
    }

    /// Reports an output of a step list that is not that of its last step: the input, which a fan-out and a skipped step
    /// leave as it is.
    fn check_chained_output(&mut self, items: &[Item<'_>]) {
        let certain = items.iter().rev().find(|item| item.step.condition.is_none());
        if certain.is_none_or(|item| matches!(item.kind, ItemKind::Fanout(_))) {
            let span = items.last().map_or(self.plan.root.span, |item| item.span);
            let message = "the output: a step list gives its last input, which the steps at its end may leave as it is";
            self.report.add_loss(span, message);
        }
    }

    /// Writes the members of a fan-out. Each sees the variables as they were before, and they set theirs after all.
    fn emit_members<'m>(&mut self, members: &'m [Item<'m>], mut write: impl FnMut(&mut Self, &'m Item<'m>)) {
        let before = self.names.mark();
        let mut set = Vec::new();
        for (index, member) in members.iter().enumerate().take_while(|_| !self.stop.is_stopped()) {
            self.is_member = true;
            self.has_later_members = index + 1 < members.len();
            write(self, member);
            let known = member.variable.as_ref().and_then(|variable| self.names.find(variable).cloned());
            set.push((member.variable.clone(), known));
            self.names.return_to(before);
        }
        self.is_member = false;
        self.has_later_members = false;
        for (variable, known) in set {
            match (variable, known) {
                (Some(variable), Some(known)) => {
                    self.names.overwrite(&known.target);
                    self.names.copy_facts(&variable, &known);
                }
                (Some(variable), None) => self.names.lose(&variable),
                (None, _) => {}
            }
        }
        self.names.lose("__fanout");
    }

    /// Whether the output of a step becomes the next input.
    fn sets_input(&self) -> bool {
        chains_outputs(self.plan) && !self.is_member
    }

    /// Notes that a step is lost, and with it what it sets.
    fn lose_result(&mut self, item: &Item<'_>) {
        match &item.variable {
            Some(variable) => self.names.lose(variable),
            None => self.names.lose_names(item),
        }
        if self.sets_input() {
            self.names.lose("input");
        }
    }

    /// Reports that no step could be written, so that there is no definition.
    fn report_nothing_left(&mut self, to: Format) {
        let message = format!("nothing is left of this definition as {to}: none of its steps can be written");
        self.report.add_loss(self.plan.root.span, message);
    }

    /// The comments for the losses since a mark.
    fn loss_comments(&self, mark: usize) -> Vec<String> {
        self.report.losses_since(mark).into_iter().map(|message| format!("Lost: {message}")).collect()
    }

    /// Begins a step. Returns the mark of the reports before it.
    fn begin_item(&mut self) -> usize {
        self.kept_parts.clear();
        self.has_other_text = false;
        self.report.mark()
    }

    /// Reports that a step is kept, or the parts of it that are, if something else was reported about it.
    fn finish_item(&mut self, item: &Item<'_>, mark: usize) {
        let title = item.title();
        // The conversation is reported for the whole definition.
        let is_changed = self.has_other_text || self.is_unrolled || self.plan.thread.is_some();
        if !is_changed && !self.report.has_more_than(mark) {
            return self.report.add_kept(item.kind.name_kind(), item.span, format!("the step {title}"));
        }
        for (construct, part) in std::mem::take(&mut self.kept_parts) {
            self.report.add_kept(construct, item.span, format!("{part} of {title}"));
        }
        if matches!(item.kind, ItemKind::Prompt(_)) && !self.has_other_text {
            self.report.add_kept("text", item.span, format!("the text of {title}"));
        }
        let is_named_alike = |name: &&String| self.names.find(name).is_some_and(|known| known.target == **name);
        if let Some(variable) = item.variable.as_ref().filter(is_named_alike) {
            self.report.add_kept("result", item.span, format!("the name {variable} of the result of {title}"));
        }
    }

    /// Reports the settings of a step for errors and time that the target cannot express.
    fn check_policy(&mut self, item: &Item<'_>, abilities: Abilities) {
        let (step, span, title) = (item.step, item.span, item.title().to_owned());
        let policy = &step.policy;
        let has = [
            (policy.timeout_ms.is_some() && abilities.timeout, "time limit", "the time limit"),
            (policy.retry.is_some() && abilities.retry, "retry", "the retries"),
            (item.on_failure == FailureRule::Skip && abilities.skip_errors, "error rule", "that a failure is skipped"),
            (step.condition.is_some() && abilities.condition, "condition", "the condition"),
        ];
        self.kept_parts
            .extend(has.iter().filter(|(is_kept, ..)| *is_kept).map(|(_, kind, part)| (*kind, (*part).to_owned())));
        if let Some(limit) = policy.timeout_ms.filter(|_| !abilities.timeout) {
            self.report.add_loss(span, format!("the time limit of {limit} ms of {title}: there is none per step here"));
        }
        if policy.retry.is_some() && !abilities.retry {
            self.report.add_loss(span, format!("the retries of {title}: a failure ends the run here"));
        }
        match item.on_failure {
            FailureRule::Skip if !abilities.skip_errors => {
                self.report.add_loss(span, format!("that {title} may fail: a failure ends the run here"));
            }
            FailureRule::FinishOthers => {
                let message = format!(
                    "the failure of {title}: later steps that do not need it still run, and here a failure ends the run"
                );
                self.report.add_loss(span, message);
            }
            FailureRule::Skip | FailureRule::EndRun => {}
        }
        let is_named = item.variable.is_some() || step.capability.is_some();
        if !step.writes.is_empty() && !is_named {
            let is_computed = step.writes.iter().flat_map(|write| &write.names).any(|name| name.as_literal().is_none());
            self.report.add_loss(
                span,
                match is_computed {
                    true => format!("the name of the result of {title}, which is computed"),
                    false => format!("the names of the result of {title}: a result has one name here"),
                },
            );
        }
        if step.condition.is_some() && !abilities.condition {
            self.report.add_loss(span, format!("the condition of {title}: the step always runs here"));
        }
        if item.is_answer && !abilities.answer {
            self.report.add_change(span, format!("{title} is the last step, so its output is the answer"));
        }
        if let Some(prefix) = policy.error_prefix.filter(|_| !abilities.answer) {
            let message = format!("errors of steps do not start with {:?}", prefix.trim_end());
            self.report.add_general_difference(self.plan.root.span, message);
        }
    }

    /// Reports that an agent's grants, which steps of step lists need, are not checked.
    fn note_grants(&mut self, item: &Item<'_>) {
        if item.step.capability.is_some() {
            let message = "the grants of an agent are not checked before the steps";
            self.report.add_general_difference(self.plan.root.span, message);
        }
    }

    /// Reports the parts of a model call that a plain prompt cannot have.
    fn check_plain_prompt(&mut self, item: &Item<'_>, prompt: &Prompt<'_>) {
        let (generate, span, title) = (prompt.generate, item.span, item.title().to_owned());
        if generate.system.is_some() {
            self.has_other_text |= !parts::own_instructions(prompt).parts.is_empty();
            let how = match parts::own_instructions(prompt).parts.is_empty() {
                true => "the model gets the prompt alone here",
                false => "they are the beginning of its prompt here",
            };
            self.report.add_loss(span, format!("the instructions of {title}: {how}"));
        }
        if generate.schema.is_some() {
            self.report.add_loss(span, format!("the schema of {title}: its answer is text here"));
        }
        self.check_call_settings(item, prompt);
    }

    /// Reports the settings of a model call, besides its messages, that a plain call does not have.
    fn check_call_settings(&mut self, item: &Item<'_>, prompt: &Prompt<'_>) {
        let (span, title) = (item.span, item.title().to_owned());
        if let Some(model) = prompt.generate.model.as_ref().filter(|model| model.as_literal() != Some("")) {
            let message = format!("the model {} of {title}: the default model is asked here", model.show_source());
            self.report.add_loss(span, message);
        }
        self.check_options(item, prompt.generate);
        if prompt.earlier > 0 {
            let message = format!("the earlier messages of {title}: the model sees only its last text here");
            self.report.add_loss(span, message);
        }
        self.check_tools(item, prompt);
    }

    fn check_options(&mut self, item: &Item<'_>, generate: &Generate) {
        if generate.options != GenerateOptions::default() || generate.computed.is_some() {
            let message = format!("the options of {}: the model's own settings apply here", item.title());
            self.report.add_loss(item.span, message);
        }
    }

    /// Reports the tools of a model call, which no prompt here has.
    fn check_tools(&mut self, item: &Item<'_>, prompt: &Prompt<'_>) {
        let title = item.title();
        for tool in prompt.tools {
            let message = format!("the tool {} of {title}: a prompt has no tools here", tool.declaration.name);
            self.report.add_loss(item.span, message);
        }
    }

    /// Reports how the call of a function differs from the step that it replaces.
    fn check_call(&mut self, item: &Item<'_>, call: &Call) {
        for difference in &call.differences {
            self.report.add_loss(item.span, difference.clone());
        }
    }
}
