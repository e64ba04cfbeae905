//! All codes of diagnostics and run-time errors, in one table, each with its category and its title.
//!
//! `FL01xx` reading files · `FL02xx` flow · `FL03xx` steps · `FL04xx` pipeline · `FL05xx` graph · `FL06xx` Markdown ·
//! `FL10xx` steps that fail at run time · `FL11xx` limits · `FL12xx` journal and leases · `FL13xx` storage · `FL14xx`
//! configuration and command line · `FL15xx` HTTP API.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::category::Category;

macro_rules! codes {
    ($($name:ident = $number:literal $category:ident $title:literal;)*) => {
        /// An error code, written as `FL` and four digits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $title] $name = $number,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The meaning of the code, in a few words.
            pub fn title(self) -> &'static str {
                match self {
                    $(Code::$name => $title,)*
                }
            }

            /// The kind of problem, which decides the exit code and the HTTP status.
            pub fn category(self) -> Category {
                match self {
                    $(Code::$name => Category::$category,)*
                }
            }
        }
    };
}

codes! {
    Unreadable = 101 Rejected "the file cannot be read";
    NotUtf8 = 102 Rejected "the file is not UTF-8 text";
    EmptySource = 103 Rejected "the file is empty";
    SourceTooLarge = 104 Rejected "the file is larger than the limit";
    JsonSyntax = 105 Rejected "the file is not valid JSON";
    JsonTruncated = 106 Rejected "the JSON text ends too early";
    JsonTooDeep = 107 Rejected "the JSON text is nested too deeply";
    DuplicateKey = 108 Rejected "a key is given twice";
    UnknownFormat = 109 Rejected "the format of the file is not recognised";
    WrongKind = 110 Rejected "a value is of the wrong kind";
    MissingKey = 111 Rejected "a required key is missing";
    UnknownKey = 112 Rejected "a key is not known here";
    SecretInPrompt = 113 Rejected "a secret is used in a prompt";
    LiteralSecret = 114 Rejected "a secret is written in the file";
    SecretPlace = 115 Rejected "a secret is used where it cannot be";
    DuplicateName = 116 Rejected "a name is given twice";
    MoreProblems = 117 Rejected "there are more problems than are shown";
    CompileStopped = 118 Rejected "checking the definition took too long";
    TooLarge = 119 Rejected "the definition would become too large";
    SecretUnbound = 120 Rejected "a secret is bound to no host";
    UntrustedTool = 121 Rejected "untrusted text meets a tool that changes something";
    BadSchema = 122 Rejected "a JSON Schema is not valid";
    ExpressedDifferently = 123 Rejected "a construct is expressed differently in the other format";
    ConversionLoss = 124 Rejected "a construct is lost in the other format";
    CostUnbounded = 125 Rejected "the cost of a workflow has no bound";
    UnknownBlock = 201 Rejected "unknown block type";
    UnknownVariable = 202 Rejected "a reference names a variable that nothing sets";
    LateVariable = 203 Rejected "a variable is used before it is set";
    NotAReference = 204 Rejected "this looks like a reference, but is text in this format";
    TrailingFinish = 205 Rejected "a finish block does nothing";
    HeaderRow = 206 Rejected "a header row has no usable key";
    StartResult = 207 Rejected "a start block cannot store a result";
    AfterDirectOutput = 208 Rejected "a step follows direct output";
    NoBody = 209 Rejected "the body is not sent";
    MissingConfig = 210 Rejected "a step has no config";
    BlankVariable = 211 Rejected "a variable has no name";
    BadSelector = 212 Rejected "a selector cannot be read";
    UnknownFunction = 301 Rejected "unknown function";
    UnknownMode = 302 Rejected "unknown step mode";
    UnknownErrorMode = 303 Rejected "unknown error mode";
    OddNumber = 304 Rejected "a number is out of range";
    CollectWithoutFanout = 305 Rejected "collect without fan-out before it";
    UnusedField = 306 Rejected "a field has no effect in this mode";
    FurtherDefinition = 307 Rejected "only the first definition of a file is read";
    UnknownBlockId = 401 Rejected "no block has this id";
    Cycle = 402 Rejected "nodes depend on each other in a cycle";
    UnknownNode = 403 Rejected "there is no such node";
    BlockIncomplete = 404 Rejected "a block lacks what its type needs";
    InputNotGiven = 405 Rejected "a node lacks an input that its block requires";
    UnknownField = 406 Rejected "a block has no such output field";
    MemoryKey = 407 Rejected "memory_keys does not name this key";
    DanglingEdge = 501 Rejected "an edge names a node that does not exist";
    NoEntry = 502 Rejected "the graph does not say where it starts";
    UnknownAgent = 503 Rejected "no agent has this id";
    Unreachable = 504 Rejected "nothing leads to a node";
    NoWayOut = 505 Rejected "a graph has no way to its end";
    DuplicateCondition = 506 Rejected "two edges have the same condition";
    TwoAlways = 507 Rejected "a node has two ALWAYS edges";
    NoExecutor = 508 Rejected "an agent has tools and nothing runs them";
    UnknownNodeType = 509 Rejected "unknown node or edge type";
    TableSyntax = 510 Rejected "a table cannot be read";
    ToolName = 511 Rejected "models refuse the name of a tool";
    MarkdownSyntax = 601 Rejected "the Markdown cannot be read";
    FrontmatterSyntax = 602 Rejected "the frontmatter is not valid YAML";
    InputSpec = 603 Rejected "an input is not declared as it should be";
    InlineAction = 604 Rejected "an action is inside a line";
    NestedAction = 605 Rejected "an action is in a place where it cannot run";
    ActionAttribute = 606 Rejected "an attribute of an action is missing or wrong";
    AttributeSyntax = 607 Rejected "spread attributes are not allowed";
    UnknownName = 608 Rejected "an expression uses a name that is not known here";
    RepeatedName = 609 Rejected "a name is used twice in one scope";
    ExpressionSyntax = 610 Rejected "an expression is not valid JavaScript";
    ExpressionUnsupported = 611 Rejected "an expression uses JavaScript that is not allowed";
    RestrictedName = 612 Rejected "an expression uses a restricted name";
    AsyncFunction = 613 Rejected "asynchronous functions are not allowed";
    IncludeFailed = 614 Rejected "an included file cannot be used";
    UnknownElement = 615 Rejected "an element is not an action and stays text";
    IgnoredContent = 616 Rejected "the content of an action is not used";
    TooComplex = 617 Rejected "the Markdown is nested too deeply or too complex";
    UnknownTool = 618 Rejected "unknown tool";
    SchemaSyntax = 619 Rejected "the schema cannot be understood";
    IgnoredKey = 620 Rejected "an attribute or key has no effect";
    NotAMethod = 621 Rejected "a string has no method of this name";
    NothingToRun = 622 Rejected "the workflow is empty";
    ActionAsText = 623 Rejected "an action stays text in an included file or a fragment";
    UnclosedFence = 624 Rejected "a code block is not closed and hides an action";
    NoAction = 625 Rejected "no action: no model is asked";
    LostIndentation = 626 Rejected "a text in braces loses indentation";
    HttpStatus = 1001 Rejected "the server answered with an error status";
    HttpRequestInvalid = 1002 Rejected "the HTTP request cannot be sent";
    HttpFailed = 1003 Rejected "the HTTP request failed";
    EgressDenied = 1004 Rejected "the address is not allowed";
    ReplyTooLarge = 1005 Rejected "the reply is too large";
    ScrapeFailed = 1006 Rejected "the page could not be read";
    ModelFailed = 1010 Rejected "the model call failed";
    ModelUnknown = 1011 Rejected "the model is not known";
    ModelKeyMissing = 1012 Rejected "the provider's key is missing";
    ModelNone = 1013 Rejected "no model was chosen";
    ModelTruncated = 1014 Rejected "the model's answer broke off";
    ModelNotJson = 1015 Rejected "the model's answer is not the JSON that was asked for";
    ModelFileMissing = 1016 Rejected "the local model's file is missing";
    ScriptExhausted = 1017 Rejected "the scripted model has no further answer";
    SchemaInvalid = 1018 Rejected "the JSON Schema is not valid";
    FunctionFailed = 1020 Rejected "the function failed";
    FunctionUnknown = 1021 Rejected "the function is not known";
    ArgumentMissing = 1022 Rejected "an argument is missing";
    CapabilityDenied = 1023 Forbidden "the agent may not call the function";
    FileDenied = 1024 Rejected "the file is outside the allowed folder";
    FileFailed = 1025 Rejected "the file could not be read or written";
    WorkflowNotFound = 1026 NotFound "the workflow does not exist";
    McpFailed = 1027 Rejected "the MCP server cannot be used";
    MissingValue = 1030 Rejected "a reference has no value";
    InputMissing = 1031 Rejected "a required input is missing";
    NoSandbox = 1032 Rejected "this step needs the sandbox";
    SecretUnknown = 1033 Rejected "the secret is not set";
    StepRefused = 1034 Rejected "the step cannot run as written";
    MachineStuck = 1035 Rejected "no edge leads on from a node";
    NoSelector = 1036 Rejected "the selector found nothing";
    ExpressionFailed = 1037 Rejected "an expression failed";
    InputInvalid = 1038 Rejected "an input is of the wrong kind";
    SecretDenied = 1039 Forbidden "the secret may not be used here";
    StepTimeout = 1040 Rejected "the step took too long";
    Cancelled = 1041 Stopped "the run was cancelled";
    AnswerInvalid = 1042 Rejected "the answer does not fit the question";
    NodesFailed = 1043 Rejected "nodes of a pipeline failed";
    BlockError = 1044 Rejected "a block reported an error";
    BlockInput = 1045 Rejected "the inputs do not fit the block";
    BlockOutput = 1046 Rejected "the output does not fit the block";
    ScriptLimit = 1051 Rejected "the expression reached its limit";
    BlockFailed = 1052 Rejected "the Python block failed";
    BlockLimit = 1053 Rejected "the Python block reached its limit";
    BlockResult = 1054 Rejected "the Python block's result cannot be used";
    AuthoringFailed = 1060 Rejected "the request could not be made into a workflow";
    LimitSteps = 1101 OverBudget "the run reached its step limit";
    LimitIterations = 1102 Rejected "a loop reached its iteration limit";
    LimitNesting = 1103 Rejected "steps are nested too deeply";
    LimitSubflow = 1104 Rejected "workflows call each other too deeply";
    LimitChildRuns = 1105 OverBudget "the run reached its limit of child runs";
    LimitTime = 1106 TimedOut "the run reached its time limit";
    LimitOutput = 1107 Rejected "a step's output is too large";
    MemoryFull = 1108 TooMany "the user's memory is full";
    BudgetTokens = 1110 OverBudget "the run reached its token budget";
    BudgetMoney = 1111 OverBudget "the run reached its money budget";
    PriceUnknown = 1112 OverBudget "the model's price is unknown under a money budget";
    QuotaExceeded = 1113 TooMany "the user's quota is used up";
    ReplayDivergence = 1201 Diverged "replay diverged from the record";
    RunOwned = 1202 Conflict "another process drives the run";
    RunNotFound = 1203 NotFound "there is no such run";
    RunAmbiguous = 1204 Rejected "the name fits several runs";
    EngineTooOld = 1205 Rejected "the run needs a newer engine";
    EffectUncertain = 1206 Rejected "an effect may or may not have happened";
    OwnershipLost = 1207 DatabaseFailed "the process lost the run";
    NothingToDo = 1208 Conflict "the run is not in a state for this";
    Interrupted = 1209 Stopped "the program was stopped while it drove a run";
    RunOfOtherProject = 1210 Conflict "the run belongs to another project";
    ResponseMissing = 1211 Diverged "a test has no response for a request";
    RunOfOtherConfig = 1212 Conflict "the run was started under another configuration";
    StoreFailed = 1301 DatabaseFailed "the database failed";
    StoreFull = 1302 Full "the disk is full";
    StoreReadOnly = 1303 Unavailable "the database cannot be written";
    StoreCorrupt = 1304 DatabaseFailed "the database is damaged";
    StoreNewer = 1305 Misconfigured "the database is from a newer version";
    StoreLocked = 1306 Unavailable "the database is locked";
    StoreUnreachable = 1307 Unavailable "the database cannot be reached";
    DataReadable = 1308 Misconfigured "others can read the data folder";
    RestateUnreachable = 1309 Unavailable "Restate cannot be reached";
    StoreUnserved = 1310 Unavailable "the database does not serve this program now";
    StoreGone = 1311 Unavailable "the database file is gone";
    ConfigInvalid = 1401 Misconfigured "the configuration is not valid";
    UsageInvalid = 1402 Rejected "the command or request is not valid";
    ModelFetchFailed = 1403 Unavailable "the model could not be fetched";
    BindRefused = 1404 Misconfigured "the server may not listen there";
    TestInvalid = 1405 Rejected "a test of a workflow is not valid";
    EstimateExceeded = 1406 OverBudget "the worst case exceeds a maximum";
    KeyMissing = 1501 Unauthenticated "the call needs a key";
    KeyUnknown = 1502 Unauthenticated "the key is not known";
    ScopeMissing = 1503 Forbidden "the key does not allow this";
    OriginRefused = 1504 Forbidden "the call comes from another site";
    RequestInvalid = 1505 Malformed "the request is not valid";
    KeyReused = 1506 Conflict "the Idempotency-Key was used for another call";
    NotThere = 1507 NotFound "there is nothing at this address";
    TooManyRuns = 1508 TooMany "the server has reached its limit of runs";
    StillUsed = 1509 Conflict "something else needs this definition";
    NotMine = 1510 Conflict "the definition cannot be changed here";
    ScheduleInvalid = 1512 Rejected "the schedule cannot be read";
    TooManyCalls = 1513 TooMany "there are too many calls";
    PeerRefused = 1514 Unauthenticated "the call comes from another user of this machine";
    KeyExpired = 1515 Unauthenticated "the key has expired";
    PreconditionFailed = 1516 ConditionFailed "the definition has changed meanwhile";
    FileExists = 1517 Conflict "there is already a file with this name";
    ServerStopping = 1518 Unavailable "the server is stopping";
}

impl Code {
    /// Whether an operator can repair this failure of the database outside of the program: work in progress waits for
    /// that.
    pub fn is_store_outage(self) -> bool {
        matches!(
            self,
            Code::StoreFull | Code::StoreReadOnly | Code::StoreLocked | Code::StoreUnreachable | Code::StoreUnserved
        )
    }

    /// Parses a code such as `FL0105`; the digits alone are accepted.
    pub fn parse(text: &str) -> Option<Code> {
        let digits = text.trim().trim_start_matches(['F', 'L', 'f', 'l']);
        let number: u16 = digits.parse().ok()?;
        Code::ALL.iter().copied().find(|code| *code as u16 == number)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FL{:04}", *self as u16)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
        let text = String::deserialize(deserializer)?;
        Code::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("unknown code {text}")))
    }
}
