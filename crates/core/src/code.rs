//! All codes of diagnostics and run-time errors, in one table.
//!
//! `FL01xx` reading files · `FL02xx` flow · `FL03xx` steps · `FL04xx` pipeline · `FL05xx` graph · `FL06xx` Markdown ·
//! `FL10xx` steps that fail at run time · `FL11xx` limits · `FL12xx` journal and leases · `FL13xx` storage · `FL14xx`
//! configuration and command line · `FL15xx` HTTP API.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($($name:ident = $number:literal $title:literal;)*) => {
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
        }
    };
}

codes! {
    Unreadable = 101 "the file cannot be read";
    NotUtf8 = 102 "the file is not UTF-8 text";
    EmptySource = 103 "the file is empty";
    SourceTooLarge = 104 "the file is larger than the limit";
    JsonSyntax = 105 "the file is not valid JSON";
    JsonTruncated = 106 "the JSON text ends too early";
    JsonTooDeep = 107 "the JSON text is nested too deeply";
    DuplicateKey = 108 "a key is given twice";
    UnknownFormat = 109 "the format of the file is not recognised";
    WrongKind = 110 "a value is of the wrong kind";
    MissingKey = 111 "a required key is missing";
    UnknownKey = 112 "a key is not known here";
    SecretInPrompt = 113 "a secret is used in a prompt";
    LiteralSecret = 114 "a secret is written in the file";
    SecretPlace = 115 "a secret is used where it cannot be";
    DuplicateName = 116 "a name is given twice";
    MoreProblems = 117 "there are more problems than are shown";
    CompileStopped = 118 "checking the definition took too long";
    TooLarge = 119 "the definition would become too large";
    SecretUnbound = 120 "a secret is bound to no host";
    UntrustedTool = 121 "untrusted text meets a tool that changes something";
    BadSchema = 122 "a JSON Schema is not valid";
    ExpressedDifferently = 123 "a construct is expressed differently in the other format";
    ConversionLoss = 124 "a construct is lost in the other format";
    CostUnbounded = 125 "the cost of a workflow has no bound";
    UnknownBlock = 201 "unknown block type";
    UnknownVariable = 202 "a reference names a variable that nothing sets";
    LateVariable = 203 "a variable is used before it is set";
    DoubleBraces = 204 "double braces are not a reference in this format";
    TrailingFinish = 205 "a finish block does nothing";
    HeaderRow = 206 "a header row has no usable key";
    StartResult = 207 "a start block cannot store a result";
    AfterDirectOutput = 208 "a step follows direct output";
    NoBody = 209 "the body is not sent";
    MissingConfig = 210 "a step has no config";
    BlankVariable = 211 "a variable has no name";
    BadSelector = 212 "a selector cannot be read";
    UnknownFunction = 301 "unknown function";
    UnknownMode = 302 "unknown step mode";
    UnknownErrorMode = 303 "unknown error mode";
    OddNumber = 304 "a number is out of range";
    CollectWithoutFanout = 305 "collect without fan-out before it";
    UnusedField = 306 "a field has no effect in this mode";
    UnknownBlockId = 401 "no block has this id";
    Cycle = 402 "nodes depend on each other in a cycle";
    UnknownNode = 403 "there is no such node";
    BlockIncomplete = 404 "a block lacks what its type needs";
    InputNotGiven = 405 "a node lacks an input that its block requires";
    UnknownField = 406 "a block has no such output field";
    MemoryKey = 407 "memory_keys does not name this key";
    DanglingEdge = 501 "an edge names a node that does not exist";
    NoEntry = 502 "the graph does not say where it starts";
    UnknownAgent = 503 "no agent has this id";
    Unreachable = 504 "nothing leads to a node";
    NoWayOut = 505 "a graph has no way to its end";
    DuplicateCondition = 506 "two edges have the same condition";
    TwoAlways = 507 "a node has two ALWAYS edges";
    NoExecutor = 508 "an agent has tools and nothing runs them";
    UnknownNodeType = 509 "unknown node or edge type";
    TableSyntax = 510 "a table cannot be read";
    MarkdownSyntax = 601 "the Markdown cannot be read";
    FrontmatterSyntax = 602 "the frontmatter is not valid YAML";
    InputSpec = 603 "an input is not declared as it should be";
    InlineAction = 604 "an action is inside a line";
    NestedAction = 605 "an action is in a place where it cannot run";
    ActionAttribute = 606 "an attribute of an action is missing or wrong";
    AttributeSyntax = 607 "spread attributes are not allowed";
    UnknownName = 608 "an expression uses a name that is not known here";
    RepeatedName = 609 "a name is used twice in one scope";
    ExpressionSyntax = 610 "an expression is not valid JavaScript";
    ExpressionUnsupported = 611 "an expression uses JavaScript that is not allowed";
    RestrictedName = 612 "an expression uses a restricted name";
    AsyncFunction = 613 "asynchronous functions are not allowed";
    IncludeFailed = 614 "an included file cannot be used";
    UnknownElement = 615 "an element is not an action and stays text";
    IgnoredContent = 616 "the content of an action is not used";
    TooComplex = 617 "the Markdown is nested too deeply or too complex";
    UnknownTool = 618 "unknown tool";
    SchemaSyntax = 619 "the schema cannot be understood";
    IgnoredKey = 620 "an attribute or key has no effect";
    NotAMethod = 621 "a text has no method of this name";
    NothingToRun = 622 "the workflow is empty";
    ActionAsText = 623 "an action stays text in an included file or a fragment";
    UnclosedFence = 624 "a code block is not closed and hides an action";
    NoAction = 625 "no action: no model is asked";
    HttpStatus = 1001 "the server answered with an error status";
    HttpRequestInvalid = 1002 "the HTTP request cannot be sent";
    HttpFailed = 1003 "the HTTP request failed";
    EgressDenied = 1004 "the address is not allowed";
    ReplyTooLarge = 1005 "the reply is too large";
    ScrapeFailed = 1006 "the page could not be read";
    ModelFailed = 1010 "the model call failed";
    ModelUnknown = 1011 "the model is not known";
    ModelKeyMissing = 1012 "the provider's key is missing";
    ModelNone = 1013 "no model was chosen";
    ModelTruncated = 1014 "the model's answer broke off";
    ModelNotJson = 1015 "the model's answer is not the JSON that was asked for";
    ModelFileMissing = 1016 "the local model's file is missing";
    ScriptExhausted = 1017 "the scripted model has no further answer";
    SchemaInvalid = 1018 "the JSON Schema is not valid";
    FunctionFailed = 1020 "the function failed";
    FunctionUnknown = 1021 "the function is not known";
    ArgumentMissing = 1022 "an argument is missing";
    CapabilityDenied = 1023 "the agent may not call the function";
    FileDenied = 1024 "the file is outside the allowed folder";
    FileFailed = 1025 "the file could not be read or written";
    WorkflowNotFound = 1026 "the workflow does not exist";
    McpFailed = 1027 "the MCP server cannot be used";
    MissingValue = 1030 "a reference has no value";
    InputMissing = 1031 "a required input is missing";
    NoSandbox = 1032 "this step needs the sandbox";
    SecretUnknown = 1033 "the secret is not set";
    StepRefused = 1034 "the step cannot run as written";
    MachineStuck = 1035 "no edge leads on from a node";
    NoSelector = 1036 "the selector found nothing";
    ExpressionFailed = 1037 "an expression failed";
    InputInvalid = 1038 "an input is of the wrong kind";
    SecretDenied = 1039 "the secret may not be used here";
    StepTimeout = 1040 "the step took too long";
    Cancelled = 1041 "the run was cancelled";
    AnswerInvalid = 1042 "the answer does not fit the question";
    NodesFailed = 1043 "nodes of a pipeline failed";
    BlockError = 1044 "a block reported an error";
    BlockInput = 1045 "the inputs do not fit the block";
    BlockOutput = 1046 "the output does not fit the block";
    ScriptLimit = 1051 "the expression reached its limit";
    BlockFailed = 1052 "the Python block failed";
    BlockLimit = 1053 "the Python block reached its limit";
    BlockResult = 1054 "the Python block's result cannot be used";
    AuthoringFailed = 1060 "the request could not be made into a workflow";
    LimitSteps = 1101 "the run reached its step limit";
    LimitIterations = 1102 "a loop reached its iteration limit";
    LimitNesting = 1103 "steps are nested too deeply";
    LimitSubflow = 1104 "workflows call each other too deeply";
    LimitTime = 1106 "the run reached its time limit";
    LimitOutput = 1107 "a step's output is too large";
    MemoryFull = 1108 "the user's memory is full";
    BudgetTokens = 1110 "the run reached its token budget";
    BudgetMoney = 1111 "the run reached its money budget";
    PriceUnknown = 1112 "the model's price is unknown under a money budget";
    QuotaExceeded = 1113 "the user's quota is used up";
    ReplayDivergence = 1201 "replay diverged from the record";
    RunOwned = 1202 "another process drives the run";
    RunNotFound = 1203 "there is no such run";
    RunAmbiguous = 1204 "the name fits several runs";
    EngineTooOld = 1205 "the run needs a newer engine";
    EffectUncertain = 1206 "an effect may or may not have happened";
    OwnershipLost = 1207 "the process lost the run";
    NothingToDo = 1208 "the run is not in a state for this";
    Interrupted = 1209 "the program was stopped while it drove a run";
    RunOfOtherProject = 1210 "the run belongs to another project";
    ResponseMissing = 1211 "a test has no response for a request";
    StoreFailed = 1301 "the database failed";
    StoreFull = 1302 "the disk is full";
    StoreReadOnly = 1303 "the database cannot be written";
    StoreCorrupt = 1304 "the database is damaged";
    StoreNewer = 1305 "the database is from a newer version";
    StoreLocked = 1306 "the database is locked";
    StoreUnreachable = 1307 "the database cannot be reached";
    DataReadable = 1308 "others can read the data folder";
    RestateUnreachable = 1309 "Restate cannot be reached";
    ConfigInvalid = 1401 "the configuration is not valid";
    UsageInvalid = 1402 "the command or request is not valid";
    ModelFetchFailed = 1403 "the model could not be fetched";
    BindRefused = 1404 "the server may not listen there";
    TestInvalid = 1405 "a test of a workflow is not valid";
    EstimateExceeded = 1406 "the worst case exceeds a maximum";
    KeyMissing = 1501 "the call needs a key";
    KeyUnknown = 1502 "the key is not known";
    ScopeMissing = 1503 "the key does not allow this";
    OriginRefused = 1504 "the call comes from another site";
    RequestInvalid = 1505 "the request is not valid";
    KeyReused = 1506 "the Idempotency-Key was used for another call";
    NotThere = 1507 "there is nothing at this address";
    TooManyRuns = 1508 "the server has reached its limit of runs";
    StillUsed = 1509 "something else needs this definition";
    NotMine = 1510 "the definition cannot be changed here";
    ScheduleInvalid = 1512 "the schedule cannot be read";
    TooManyCalls = 1513 "there are too many calls";
    PeerRefused = 1514 "the call comes from another user of this machine";
    KeyExpired = 1515 "the key has expired";
    PreconditionFailed = 1516 "the definition has changed meanwhile";
}

impl Code {
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
