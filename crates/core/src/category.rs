//! The kinds of problems. Each decides the exit code of a command and the HTTP status of a request.

/// A kind of problem, outside of a run. How a run ends follows from its [`Status`](crate::status::Status).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// A definition, an input, a command or a step that cannot work as it is written.
    Rejected,
    /// A request that is not well formed.
    Malformed,
    /// The caller is not known.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The state of a thing does not permit this.
    Conflict,
    /// The content of a thing is not the one that the request requires.
    ConditionFailed,
    /// A user, or all users, do too much.
    TooMany,
    /// The budget is used up, or the worst case exceeds a maximum.
    OverBudget,
    /// The time is used up.
    TimedOut,
    /// A person stopped it.
    Stopped,
    /// The execution differs from the record.
    Diverged,
    /// The configuration, or the data folder, cannot be used by this program.
    Misconfigured,
    /// The database failed.
    DatabaseFailed,
    /// The disk is full.
    Full,
    /// Something that the program needs cannot be reached now.
    Unavailable,
}

impl Category {
    /// Exit code of a command that ends with such a problem.
    pub const fn exit_code(self) -> u8 {
        match self {
            Category::Rejected
            | Category::Malformed
            | Category::Unauthenticated
            | Category::Forbidden
            | Category::NotFound
            | Category::Conflict
            | Category::ConditionFailed
            | Category::TooMany
            | Category::Misconfigured => 2,
            Category::DatabaseFailed | Category::Full | Category::Unavailable => 1,
            Category::Diverged => 3,
            Category::OverBudget => 5,
            Category::TimedOut => 124,
            Category::Stopped => 130,
        }
    }

    /// HTTP status of a request that ends with such a problem.
    pub const fn http_status(self) -> u16 {
        match self {
            Category::Malformed => 400,
            Category::Unauthenticated => 401,
            Category::Forbidden => 403,
            Category::NotFound => 404,
            Category::Conflict | Category::Diverged => 409,
            Category::ConditionFailed => 412,
            Category::Rejected | Category::OverBudget | Category::TimedOut | Category::Stopped => 422,
            Category::TooMany => 429,
            Category::Misconfigured | Category::DatabaseFailed => 500,
            Category::Unavailable => 503,
            Category::Full => 507,
        }
    }
}
