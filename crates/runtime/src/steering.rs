//! Whether the user of a run can steer it: by the memory or the files that the run reads, and that the user has written
//! before. The author of its definition cannot know what is there.

use flowloom_core::plan::{Block, BlockCode, Leaf, MemoryOperation, Plan, Step, StepKind};

use crate::journal::SHARED_USER;

/// The function that reads a file of the user, or else a shared one.
const FILE_READ_FUNCTION: &str = "tool::file_read";

/// Whether a run of `user` reads what the user may have written.
pub(crate) fn is_steered_by_user(plan: &Plan, user: &str) -> bool {
    if user == SHARED_USER {
        return false;
    }
    let mut reads_own_data = false;
    plan.root.visit(&mut |step| reads_own_data |= reads_user_data(step));
    reads_own_data
}

fn reads_user_data(step: &Step) -> bool {
    match &step.kind {
        StepKind::Leaf(Leaf::Memory(memory)) => memory.operation != MemoryOperation::Set,
        StepKind::Leaf(Leaf::Call(call)) => &*call.function == FILE_READ_FUNCTION,
        StepKind::Leaf(Leaf::Block(Block { code, .. })) => match code {
            BlockCode::Python { source, .. } => source.contains("memory"),
            BlockCode::Function(function) => &**function == FILE_READ_FUNCTION,
            BlockCode::Prompt { .. } => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::expr::Template;
    use flowloom_core::path::Key;
    use flowloom_core::plan::FunctionCall;

    use super::*;

    #[test]
    fn reading_a_file_of_the_user_is_reading_what_the_user_wrote() {
        let reads = |function: &str| {
            let call = FunctionCall::with_prompt(function, Template::from_literal("endpoint.txt"));
            reads_user_data(&Step::new(Key::numbered_key("step", 1), StepKind::Leaf(Leaf::Call(call))))
        };
        assert!(reads(FILE_READ_FUNCTION) && !reads("tool::file_write"));
    }
}
