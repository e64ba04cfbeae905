//! The bound of a plan, step by step.

use std::collections::HashMap;

use super::child::ChildBounds;
use super::prompt::{Sizes, size_of_answer};
use super::python::BlockNames;
use super::{Bound, CallBound, Count, Latencies, ModelFigures, Unbounded, WorstCase};
use crate::diagnostic::Span;
use crate::expr::{Template, TemplatePart};
use crate::limits::Limits;
use crate::path::Path;
use crate::plan::{
    Agent, AgentTool, Assignment, Block, BlockCode, CallLimit, Composite, Dag, Generate, HttpSpec, Leaf, Loop, Machine,
    MemoryOperation, Plan, Scrape, Step, StepKind, ToolEffect, Turn,
};
use crate::value::Value;

/// How many requests a Python block may send to its run; the sandbox refuses more.
const MAX_BLOCK_REQUESTS: u64 = 1_000;

/// How often a model is asked for an answer in a schema: once more if the first one does not match.
const SCHEMA_ATTEMPTS: u64 = 2;

/// The worst case of a plan. `inputs` makes it tighter if they are known; `limits` end loops that have no bound of their own,
/// which are listed all the same.
pub fn bound_plan(
    plan: &Plan,
    inputs: Option<&Value>,
    limits: &Limits,
    figures: &dyn ModelFigures,
    latencies: Latencies,
) -> WorstCase {
    let mut walk = Walk {
        figures,
        limits,
        latencies,
        sizes: Sizes::of_inputs(plan, inputs),
        unbounded: Vec::new(),
        loops: HashMap::new(),
        children: ChildBounds::default(),
    };
    let place = StepLocation { path: Path::root(), is_included: false };
    let bound = walk.bound_step(&plan.root, &place);
    WorstCase { bound, unbounded: walk.unbounded, loops: walk.loops }
}

pub(super) struct Walk<'a> {
    pub(super) figures: &'a dyn ModelFigures,
    limits: &'a Limits,
    latencies: Latencies,
    pub(super) sizes: Sizes,
    pub(super) unbounded: Vec<Unbounded>,
    loops: HashMap<Span, u64>,
    pub(super) children: ChildBounds,
}

/// Where a step is.
#[derive(Clone)]
pub(super) struct StepLocation {
    pub(super) path: Path,
    pub(super) is_included: bool,
}

impl StepLocation {
    fn child_place(&self, step: &Step) -> StepLocation {
        StepLocation { path: self.path.child_path(&step.key), is_included: self.is_included }
    }
}

impl Walk<'_> {
    pub(super) fn report(&mut self, step: &Step, place: &StepLocation, reason: impl Into<String>) {
        self.report_unbounded(step, place, reason.into(), false);
    }

    /// Reports what only a budget ends.
    fn report_endless(&mut self, step: &Step, place: &StepLocation, reason: &str) {
        self.report_unbounded(step, place, reason.to_owned(), true);
    }

    pub(super) fn report_unbounded(&mut self, step: &Step, place: &StepLocation, reason: String, needs_budget: bool) {
        let span = if place.is_included { Span::default() } else { step.span };
        let found = Unbounded { path: place.path.clone(), span, reason, needs_budget };
        if !self.unbounded.contains(&found) {
            self.unbounded.push(found);
        }
    }

    fn bound_child(&mut self, step: &Step, place: &StepLocation) -> Bound {
        self.bound_step(step, &place.child_place(step))
    }

    pub(super) fn bound_step(&mut self, step: &Step, place: &StepLocation) -> Bound {
        let bound = match &step.kind {
            StepKind::Leaf(leaf) => self.bound_leaf(step, leaf, place),
            StepKind::Composite(composite) => self.bound_composite(step, composite, place),
        };
        self.note_own_writes(step);
        bound
    }

    /// Notes the variables that a step and the steps in it can write. A workflow that it includes has variables of its own.
    fn note_writes(&mut self, step: &Step) {
        if !matches!(step.kind, StepKind::Composite(Composite::Subflow(_))) {
            step.kind.child_steps().into_iter().for_each(|child| self.note_writes(child));
        }
        self.note_own_writes(step);
    }

    fn note_own_writes(&mut self, step: &Step) {
        if let StepKind::Composite(Composite::Assign(rows)) = &step.kind {
            // A default does not replace a text that is known.
            let is_kept = |row: &&Assignment| {
                let known = row.name.as_literal().and_then(|name| self.sizes.find_text(name));
                row.only_if_falsy && known.is_some_and(|text| !text.is_empty())
            };
            let written: Vec<&Template> = rows.iter().filter(|row| !is_kept(row)).map(|row| &row.name).collect();
            written.into_iter().for_each(|name| self.sizes.write(name, Count::UNBOUNDED));
        }
        let size = match &step.kind {
            StepKind::Leaf(Leaf::Generate(generate)) => size_of_answer(self.answer_tokens(generate)),
            _ => Count::UNBOUNDED,
        };
        for write in &step.writes {
            write.names.iter().for_each(|name| self.sizes.write(name, size));
        }
    }

    fn bound_leaf(&mut self, step: &Step, leaf: &Leaf, place: &StepLocation) -> Bound {
        let latencies = self.latencies;
        let (effect, ms) = match leaf {
            Leaf::Fail { .. } => (Bound::default(), 0),
            Leaf::Generate(generate) => (self.bound_call(generate), 0),
            Leaf::Http(http) => (self.bound_http(http), latencies.request_ms),
            Leaf::Scrape(scrape) => (self.bound_scrape(step, scrape, place), latencies.request_ms),
            Leaf::Call(call) => (self.bound_step_call(step, place, call), latencies.function_ms),
            Leaf::Block(block) => (self.bound_block(step, block, place), self.block_latency(block)),
            Leaf::Memory(memory) => {
                let is_write = memory.operation == MemoryOperation::Set;
                (Bound { writes: if is_write { Count::ONE } else { Count::ZERO }, ..Bound::default() }, 0)
            }
            Leaf::Ask { .. } => (Bound { questions: Count::ONE, ..Bound::default() }, 0),
            Leaf::Wait { duration_ms } => (Bound::default(), *duration_ms),
        };
        let chain_ms = effect.chain_ms.plus(Count::from(ms));
        with_retries(step, Bound { chain_ms, ..effect })
    }

    fn block_latency(&self, block: &Block) -> u64 {
        match block.code {
            BlockCode::Python { .. } => self.latencies.block_ms,
            // Its call has the time.
            BlockCode::Prompt { .. } => 0,
            BlockCode::Function(_) => self.latencies.function_ms,
        }
    }

    fn model_of(&self, generate: &Generate) -> String {
        let named = generate.model.as_ref();
        match named.map(|named| (named.as_literal(), named.parts.is_empty())) {
            Some((None, false)) => "*".to_owned(),
            Some((Some(name), _)) => self.figures.resolve(Some(name)),
            _ => self.figures.resolve(None),
        }
    }

    fn answer_tokens(&self, generate: &Generate) -> Count {
        let model = self.model_of(generate);
        match generate.options.max_tokens {
            // A computed option can say otherwise.
            _ if generate.computed.is_some() => Count::from(self.figures.answer_tokens(&model)),
            Some(wanted) => Count::from(u64::from(wanted)),
            None => Count::from(self.figures.answer_tokens(&model)),
        }
    }

    /// One call, without retries, and how long it takes.
    fn bound_call(&self, generate: &Generate) -> Bound {
        let model = self.model_of(generate);
        let window = self.figures.window_tokens(&model);
        let prompt = self.sizes.measure_prompt(generate).0.map_or(window, |prompt| prompt.min(window));
        let answer = self.answer_tokens(generate);
        let times = Count::from(if generate.schema.is_some() { SCHEMA_ATTEMPTS } else { 1 });
        // The second attempt contains the first answer and its error.
        let prompt = match generate.schema.is_some() {
            true => Count::from(prompt).plus(size_of_answer(answer)).plus(Count::from(4_096)),
            false => Count::from(prompt),
        };
        let call = CallBound { calls: times, input_tokens: prompt.times(times), output_tokens: answer.times(times) };
        let chain_ms = Count::from(self.latencies.model_ms).times(times);
        Bound { models: [(model, call)].into(), chain_ms, ..Bound::default() }
    }

    /// One call with all earlier messages.
    fn bound_conversation_call(&self, generate: &Generate) -> Bound {
        let mut bound = self.bound_call(generate);
        for (model, call) in &mut bound.models {
            call.input_tokens = Count::from(self.figures.window_tokens(model)).times(call.calls);
        }
        bound
    }

    fn bound_scrape(&mut self, step: &Step, scrape: &Scrape, place: &StepLocation) -> Bound {
        let mut bound = Bound::of_requests("GET".to_owned(), self.find_host(&scrape.url), Count::ONE);
        if scrape.summary.is_some() {
            let model = self.figures.resolve(None);
            let any =
                CallBound { calls: Count::UNBOUNDED, input_tokens: Count::UNBOUNDED, output_tokens: Count::UNBOUNDED };
            bound.models.insert(model, any);
            bound.chain_ms = Count::UNBOUNDED;
            self.report(step, place, "model calls: a page that does not fit the model's window is summarised in parts");
        }
        bound
    }

    fn bound_block(&mut self, step: &Step, block: &Block, place: &StepLocation) -> Bound {
        match &block.code {
            BlockCode::Prompt { generate, .. } => self.bound_conversation_call(generate),
            BlockCode::Function(function) => self.bound_block_call(step, place, function, &block.inputs),
            BlockCode::Python { source, .. } => {
                let mut bound = Bound::default();
                let most = Count::from(MAX_BLOCK_REQUESTS);
                let mut slowest_ms = 0;
                let names = BlockNames::read(source);
                if names.can_use("httpx") {
                    bound = Bound::of_requests("*".to_owned(), "*".to_owned(), most);
                    bound.writes = most;
                    slowest_ms = self.latencies.request_ms;
                }
                if names.can_write_memory() {
                    // All writes of a block are one commit.
                    bound.writes = bound.writes.plus(Count::ONE);
                }
                if names.can_use("call_llm") {
                    let model = self.figures.resolve(None);
                    let (window, answer) = (self.figures.window_tokens(&model), self.figures.answer_tokens(&model));
                    let call = CallBound {
                        calls: most,
                        input_tokens: Count::from(window).times(most),
                        output_tokens: Count::from(answer).times(most),
                    };
                    bound.models.insert(model, call);
                    slowest_ms = slowest_ms.max(self.latencies.model_ms);
                }
                // All requests of a block together are bounded.
                let chain_ms = Count::from(slowest_ms).times(most);
                Bound { blocks: Count::ONE, chain_ms, ..bound }
            }
        }
    }

    /// Whatever another workflow can do.
    pub(super) fn add_unknown_effects(&self, bound: &mut Bound) {
        let any_request = Bound::of_requests("*".to_owned(), "*".to_owned(), Count::UNBOUNDED);
        (bound.requests, bound.redirects) = (any_request.requests, any_request.redirects);
        (bound.writes, bound.chain_ms) = (Count::UNBOUNDED, Count::UNBOUNDED);
        let any =
            CallBound { calls: Count::UNBOUNDED, input_tokens: Count::UNBOUNDED, output_tokens: Count::UNBOUNDED };
        bound.models.insert("*".to_owned(), any);
    }

    fn bound_composite(&mut self, step: &Step, composite: &Composite, place: &StepLocation) -> Bound {
        match composite {
            Composite::Sequence(steps) => self.bound_sequence(steps, place),
            Composite::Scoped(scoped) => self.bound_sequence(&scoped.body, place),
            Composite::Parallel(members) => {
                // A member may use what another one has written.
                members.iter().for_each(|member| self.note_writes(member));
                members.iter().map(|member| self.bound_child(member, place)).fold(Bound::default(), Bound::beside)
            }
            Composite::Dag(dag) => self.bound_dag(dag, place),
            Composite::Machine(machine) => self.bound_machine(machine, place),
            Composite::Loop(looped) => self.bound_loop(step, looped, place),
            Composite::Branch { arms, otherwise } => {
                let steps = arms.iter().map(|(_, step)| step).chain(otherwise.as_deref());
                steps.map(|step| self.bound_child(step, place)).fold(Bound::default(), Bound::or)
            }
            Composite::Return(step) => self.bound_step(step, place),
            Composite::Subflow(subflow) => {
                let outer = std::mem::take(&mut self.sizes);
                self.sizes = Sizes::of_inputs(&subflow.plan, None);
                let inner = StepLocation { is_included: true, ..place.child_place(&subflow.plan.root) };
                let bound = self.bound_step(&subflow.plan.root, &inner);
                self.sizes = outer;
                bound
            }
            Composite::Agent(agent) => self.bound_agent(step, agent, place),
            Composite::Turn(turn) => self.bound_turn(step, turn),
            Composite::Tools(tools) => {
                self.bound_tools(step, place, &tools.tools, "tool calls: an answer may request any number")
            }
            Composite::AppendMessage(_) | Composite::Assign(_) => Bound::default(),
        }
    }

    fn bound_sequence(&mut self, steps: &[Step], place: &StepLocation) -> Bound {
        steps.iter().map(|step| self.bound_child(step, place)).fold(Bound::default(), Bound::then)
    }

    /// All nodes; the chain is the longest path along the needs.
    fn bound_dag(&mut self, dag: &Dag, place: &StepLocation) -> Bound {
        // A node may use what any other node has written.
        dag.nodes.iter().for_each(|node| self.note_writes(&node.step));
        let bounds: Vec<Bound> = dag.nodes.iter().map(|node| self.bound_child(&node.step, place)).collect();
        let mut waits: Vec<usize> = dag.nodes.iter().map(|node| node.needs.len()).collect();
        let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); bounds.len()];
        for (at, node) in dag.nodes.iter().enumerate() {
            for need in &node.needs {
                if let Some(dependents) = dependents.get_mut(*need) {
                    dependents.push(at);
                }
            }
        }
        let mut starts = vec![Count::ZERO; bounds.len()];
        let mut ends: Vec<Option<Count>> = vec![None; bounds.len()];
        let mut ready: Vec<usize> = (0..bounds.len()).filter(|at| waits[*at] == 0).collect();
        while let Some(at) = ready.pop() {
            let end = starts[at].plus(bounds[at].chain_ms);
            ends[at] = Some(end);
            for dependent in &dependents[at] {
                starts[*dependent] = starts[*dependent].max(end);
                waits[*dependent] -= 1;
                if waits[*dependent] == 0 {
                    ready.push(*dependent);
                }
            }
        }
        let chain_ms = ends.into_iter().map(|end| end.unwrap_or(Count::UNBOUNDED)).fold(Count::ZERO, Count::max);
        Bound { chain_ms, ..bounds.into_iter().fold(Bound::default(), Bound::beside) }
    }

    fn bound_machine(&mut self, machine: &Machine, place: &StepLocation) -> Bound {
        // A visit may use what any other visit has written.
        machine.nodes.iter().for_each(|node| self.note_writes(node));
        let nodes = machine.nodes.iter().map(|node| self.bound_child(node, place));
        let visit = nodes.collect::<Vec<_>>().into_iter().fold(Bound::default(), Bound::or);
        let times = match machine.resets.is_empty() {
            true => Count::from(machine.max_visits),
            false => {
                let reason = "everything: each reply of a person to this step starts the count of visits again";
                for node in machine.resets.iter().filter_map(|index| machine.nodes.get(*index)) {
                    self.report(node, &place.child_place(node), reason);
                }
                Count::UNBOUNDED
            }
        };
        visit.repeat_times(times)
    }

    fn bound_loop(&mut self, step: &Step, looped: &Loop, place: &StepLocation) -> Bound {
        // An iteration may use what the one before it has written.
        self.note_writes(&looped.body);
        let body = self.bound_step(&looped.body, place);
        let most = looped.most_iterations(|name| self.sizes.find_number(name));
        if !place.is_included {
            let known = self.loops.entry(step.span).or_default();
            *known = most.max(*known);
        }
        let times = match most {
            max if max >= self.limits.iterations => {
                self.report_endless(step, place, "everything: the loop has no bound");
                Count::UNBOUNDED
            }
            max => Count::from(max),
        };
        body.repeat_times(times)
    }

    fn bound_agent(&mut self, step: &Step, agent: &Agent, place: &StepLocation) -> Bound {
        let rounds = match agent.limit {
            CallLimit::Rounds(rounds) | CallLimit::Calls(rounds) => u64::from(rounds) + 1,
        };
        let rounds = if agent.tools.is_empty() { 1 } else { rounds };
        let call = match rounds {
            1 => self.bound_call(&agent.generate),
            _ => self.bound_conversation_call(&agent.generate),
        };
        let calls = with_retries(step, call).repeat_times(Count::from(rounds));
        match agent.limit {
            _ if agent.tools.is_empty() => calls,
            CallLimit::Calls(most) => {
                let tools = self.bound_each_tool(step, place, &agent.tools).repeat_times(Count::from(u64::from(most)));
                calls.then(tools)
            }
            CallLimit::Rounds(_) => {
                let reason = "tool calls: the agent may call any number of tools in a round";
                calls.then(self.bound_tools(step, place, &agent.tools, reason))
            }
        }
    }

    fn bound_turn(&mut self, step: &Step, turn: &Turn) -> Bound {
        let retries = turn.router.as_ref().map_or(0, |router| router.retries);
        let call = self.bound_conversation_call(&turn.generate);
        with_retries(step, call).repeat_times(Count::from(u64::from(retries) + 1))
    }

    /// Any number of calls of tools.
    fn bound_tools(&mut self, step: &Step, place: &StepLocation, tools: &[AgentTool], reason: &str) -> Bound {
        if tools.is_empty() {
            return Bound::default();
        }
        self.report_endless(step, place, reason);
        self.bound_each_tool(step, place, tools).repeat_times(Count::UNBOUNDED)
    }

    /// One call of the tool that does the most.
    fn bound_each_tool(&mut self, step: &Step, place: &StepLocation, tools: &[AgentTool]) -> Bound {
        let mut most = Bound::default();
        for tool in tools {
            let effect = match &tool.effect {
                ToolEffect::Function(function) => self.bound_function(step, place, function),
                ToolEffect::Flow(id) => self.bound_function(step, place, &crate::plan::flow_function_id(id)),
                ToolEffect::Http(http) => self.bound_http(http),
                ToolEffect::Client => Bound { questions: Count::ONE, ..Bound::default() },
            };
            let approval = if tool.needs_approval { Count::ONE } else { Count::ZERO };
            let questions = effect.questions.plus(approval);
            let chain_ms = effect.chain_ms.plus(Count::from(self.latencies.function_ms));
            most = most.or(with_retries(step, Bound { questions, chain_ms, ..effect }));
        }
        most
    }

    fn bound_http(&self, http: &HttpSpec) -> Bound {
        let method = http.method.as_literal().map(|method| method.trim().to_ascii_uppercase());
        let method = method.map_or("*".to_owned(), |method| if method.is_empty() { "GET".to_owned() } else { method });
        let is_write = !matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS");
        let writes = if is_write { Count::ONE } else { Count::ZERO };
        Bound { writes, ..Bound::of_requests(method, self.find_host(&http.url), Count::ONE) }
    }

    /// The host of an address; `*` if a value of the run can decide it.
    pub(super) fn find_host(&self, url: &Template) -> String {
        let mut known = String::new();
        let mut is_whole = true;
        for part in &url.parts {
            let text = match part {
                TemplatePart::Text(text) => Some(&**text),
                TemplatePart::Ref(reference) if reference.path.is_empty() => self.sizes.find_text(&reference.name),
                _ => None,
            };
            let Some(text) = text else {
                is_whole = false;
                break;
            };
            known += text;
        }
        // Up to the first value that is not known, the host must be complete.
        let has_path = known.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?', '#']));
        let host = url::Url::parse(&known).ok().and_then(|url| url.host_str().map(str::to_owned));
        host.filter(|_| is_whole || has_path).unwrap_or_else(|| "*".to_owned())
    }
}

fn with_retries(step: &Step, attempt: Bound) -> Bound {
    let Some(retry) = &step.policy.retry else { return attempt };
    let delays = Count::from(retry.cap_ms).times(Count::from(u64::from(retry.max)));
    let all = attempt.repeat_times(Count::from(u64::from(retry.max) + 1));
    Bound { chain_ms: all.chain_ms.plus(delays), ..all }
}
