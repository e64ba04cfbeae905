//! [`IndexLimit`]: a comparison in the condition of a loop that ends it after a number of iterations.

use std::sync::Arc;

/// The number of the iteration, counted from 0, compared with a limit. The loop ends when the comparison is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexLimit {
    /// The comparison.
    pub test: IndexTest,
    /// The other side.
    pub limit: LimitSource,
}

/// How the number of the iteration is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexTest {
    /// It is the limit.
    Equal,
    /// It is the limit or more.
    AtLeast,
    /// It is more than the limit.
    Above,
}

/// Where a limit comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The condition contains the number.
    Number(i64),
    /// A variable, which may have any value.
    Variable(Arc<str>),
}

impl IndexLimit {
    /// The number of the first iteration for which the comparison is true; `None` if it may never be. `read_number` returns the
    /// number that a variable is known to have.
    pub fn find_last_index(&self, read_number: impl Fn(&str) -> Option<i64>) -> Option<u64> {
        let limit = match &self.limit {
            LimitSource::Number(limit) => *limit,
            LimitSource::Variable(name) => read_number(name)?,
        };
        match self.test {
            // A negative number is never reached.
            IndexTest::Equal => u64::try_from(limit).ok(),
            IndexTest::AtLeast => Some(u64::try_from(limit).unwrap_or(0)),
            IndexTest::Above => Some(u64::try_from(limit.checked_add(1)?).unwrap_or(0)),
        }
    }
}
