//! The format of workflow files as one table: the keys of each map, their values, which keys are required, and what
//! they are for.
//!
//! The reader derives from it the known keys and suggestions for misspelt ones; the JSON Schema is generated from it
//! alone. The reader checks what goes beyond the shape of a value (names that exist, templates, durations within
//! range).

#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
    /// Its purpose, in one line; empty if its shape is description enough.
    pub about: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A text that has a reader of its own.
    Text,
    /// A text for people.
    Prose,
    /// A text that is a template.
    Source,
    Prompt,
    Expression,
    /// An expression, or a boolean.
    Condition,
    System,
    NonEmpty,
    /// A text or a list of texts.
    OneOrMany,
    Pattern(&'static str),
    Boolean,
    Count(u64, u64),
    Integer,
    Number(i8, i8),
    /// US dollars, more than 0.
    Cost,
    /// Bytes: an integer or a size such as `8MiB`.
    Size,
    RoleName,
    /// A duration greater than 0.
    Duration,
    /// A duration; `0` or `none` for no limit.
    DurationOrNever,
    Word(&'static [(&'static str, &'static str)]),
    /// A list with at least this many entries.
    List(&'static Shape, usize),
    Map(&'static Shape),
    /// Any value except null; its texts are templates.
    Template,
    /// A map from any name to such values.
    Templates,
    /// A tool's name.
    Tool,
    /// Each tool once, or all of a server.
    Tools,
    /// A named shape, which is used in several places or within itself.
    Named(&'static Named),
    WorkflowName,
    /// Fields or inputs: a type for each name.
    Fields,
    /// Fields or null.
    StatusFields,
    /// Fields for each status.
    Output,
    ToolOutput,
    /// A condition and expressions for each status.
    Rules,
    /// From a child's last status to a status.
    Statuses,
    /// Roles, each with the keys of its kind.
    Roles,
    /// The edges of `start` and of each status of each role.
    Graph,
    Hooks,
    /// Settings by hook kind.
    With,
}

#[derive(Debug)]
pub struct Named {
    /// Its name in the schema.
    pub name: &'static str,
    pub about: &'static str,
    pub form: Form,
}

#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// A map with these keys and no others.
    Keys(&'static [KeySpec]),
    Either(&'static [Shape]),
    /// One of these words, each with its meaning.
    Words(&'static [(&'static str, &'static str)]),
    Pattern(&'static str),
}

impl Named {
    pub fn keys(&self) -> &'static [KeySpec] {
        match self.form {
            Form::Keys(keys) => keys,
            _ => &[],
        }
    }
}

pub const fn key(name: &'static str, shape: Shape, about: &'static str) -> KeySpec {
    KeySpec { name, shape, required: false, about }
}

pub const fn required(name: &'static str, shape: Shape, about: &'static str) -> KeySpec {
    KeySpec { name, shape, required: true, about }
}

macro_rules! named {
    ($($id:ident $name:literal $about:literal $form:ident $of:expr;)*) => {
        $(#[doc = $about] pub static $id: Named = Named { name: $name, about: $about, form: Form::$form($of) };)*
    };
}

use Shape::{Boolean, Cost, Count, Integer, List, Map, NonEmpty, Number, Prose, Source, Template, Templates, Text};

/// A positive integer that is used in calculations.
pub const COUNT: Shape = Count(1, u64::MAX);
/// An integer from 1 of a smaller range.
const SMALL: Shape = Count(1, u32::MAX as u64);
pub const MAX_ATTEMPTS: u64 = 100;
pub const MAX_HOOKS: usize = 64;
/// The maximum number of stop texts.
pub const MAX_STOPS: usize = 16;
pub const MAX_LANES: u64 = 1024;

/// The top level of a file. Keys that begin with `x-` are ignored there.
pub static TOP: [KeySpec; 11] = [
    required("rondo", Count(1, 1), "Version of the format."),
    required("name", Shape::WorkflowName, "The name."),
    key("description", Prose, "What it is for."),
    key("input", Shape::Fields, "What a thread is given: types by name; a name that ends in `?` is optional."),
    key("models", Map(&Shape::Named(&MODEL)), "Logical models by name."),
    required("roles", Shape::Roles, "The roles of the workflow, by name."),
    required("graph", Shape::Graph, "Where `start` and each role's statuses lead."),
    key("result", Template, "What the run gives back: templates at the leaves."),
    key("hooks", Shape::Hooks, "Hooks in front of calls, in order."),
    key("limits", Shape::Named(&LIMITS), "Limits of a thread."),
    key("serve", Shape::Named(&SERVE), "How a chat client uses it as a model."),
];

/// The kind of a role, as written under `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Model,
    Selector,
    Human,
    Tool,
    Rule,
    Workflow,
}

impl Kind {
    pub const ALL: [(&'static str, Self, &'static str); 6] = [
        ("model", Self::Model, "A role that a model plays."),
        ("selector", Self::Selector, "A model role whose statuses are those of its edges."),
        ("human", Self::Human, "A person answers."),
        ("tool", Self::Tool, "One tool is run."),
        ("rule", Self::Rule, "Expressions decide."),
        ("workflow", Self::Workflow, "Another workflow runs."),
    ];

    pub fn keys(self) -> Vec<KeySpec> {
        ROLE.iter().filter(|(kinds, _)| kinds.contains(&self)).map(|(_, key)| *key).collect()
    }
}

const EVERY: &[Kind] = &[Kind::Model, Kind::Selector, Kind::Human, Kind::Tool, Kind::Rule, Kind::Workflow];
const SPEAKS: &[Kind] = &[Kind::Model, Kind::Selector];

/// The keys of roles, each with the kinds that allow it.
const ROLE: [(&[Kind], KeySpec); 25] = [
    (EVERY, key("kind", Text, "The word under `kind`.")),
    (EVERY, key("description", Prose, "What the role is for.")),
    (&[Kind::Tool], required("tool", Shape::Tool, "The tool that it runs.")),
    (&[Kind::Tool], key("args", Templates, "The tool's arguments: templates.")),
    (&[Kind::Workflow], required("workflow", Text, "The file of the child, in this folder.")),
    (&[Kind::Workflow], key("input", Templates, "The child's inputs: templates.")),
    (&[Kind::Workflow], key("statuses", Shape::Statuses, "From the child's last status to a status of this role.")),
    (SPEAKS, key("model", NonEmpty, "A name under `models`; `default` without it.")),
    (SPEAKS, key("system", Shape::System, "The system text: the same in every run.")),
    (&[Kind::Selector], key("by", Shape::Named(&SELECT_BY), "What chooses; a model by default.")),
    (&[Kind::Model], key("output", Shape::Output, "The statuses it may answer with, each with its fields.")),
    (&[Kind::Human], required("output", Shape::Output, "The form: the person picks a status.")),
    (&[Kind::Tool], key("output", Shape::ToolOutput, "The fields that are read from the tool's text.")),
    (&[Kind::Rule], required("output", Shape::Rules, "Tried in order; the last without `when`.")),
    (SPEAKS, key("format", Shape::Named(&FORMAT), "How answers are written; `frontmatter` without it.")),
    (SPEAKS, key("tools", Shape::Tools, "The tools that it may call: `name`, `server.tool` or `server.*`.")),
    (
        SPEAKS,
        key(
            "history",
            Shape::Named(&HISTORY),
            "How much of its own earlier visits the conversation holds; `condensed` without it.",
        ),
    ),
    (
        SPEAKS,
        key(
            "context",
            Shape::Named(&CONTEXT),
            "Which of the other roles' steps the prompt lists; `outputs` without it.",
        ),
    ),
    (SPEAKS, key("limits", Shape::Named(&ROLE_LIMITS), "Limits of this role.")),
    (SPEAKS, key("retry", Shape::Named(&RETRY), "How its model calls that fail are repeated.")),
    (SPEAKS, key("fallback", List(&NonEmpty, 0), "Names under `models`, tried in order when the model fails.")),
    (SPEAKS, key("timeout", Shape::Duration, "How long one of its steps may take; 10m without it.")),
    (&[Kind::Human], key("timeout", Shape::Duration, "How long the form is open; then `on_timeout` is taken.")),
    (
        SPEAKS,
        key("compact", Shape::Named(&COMPACT), "Puts older visits into one text when the conversation grows too long."),
    ),
    (SPEAKS, key("with", Shape::With, "Settings of hooks for this role, by kind.")),
];

const FILE: KeySpec = required("file", Text, "Its path, in the workflow's folder.");
const TEXT: KeySpec = required("text", Source, "The text.");
const RAW: KeySpec = key("raw", Boolean, "Whether `{{` in it is text.");
/// The keys of a piece of a system text, which has one of the first two.
pub const SYSTEM_KEYS: [KeySpec; 3] = [key("file", Text, FILE.about), key("text", Source, TEXT.about), RAW];

/// The keys of every use of a hook.
pub const HOOK: [KeySpec; 4] = [
    required("use", Text, "The kind of the hook."),
    key("roles", List(&Text, 0), "The roles whose calls pass through it; all without it."),
    key("at", Text, "The calls that pass through it."),
    key(
        "on_error",
        Shape::Word(&[("bypass", "The call continues without the hook."), ("fail", "The call fails.")]),
        "What happens to a call when the hook itself fails.",
    ),
];

named! {
    MODEL "Model" "A logical model and its parameters." Keys &[
        key("model", NonEmpty, "The provider's id."),
        key("temperature", Number(0, 2), "Sampling temperature."),
        key("top_p", Number(0, 1), "Share of the probability that is sampled from."),
        key("max_output_tokens", COUNT, "The most tokens of one reply."),
        key("seed", Integer, "Seed for sampling, where the provider has one."),
        key("stop", Shape::OneOrMany, "Texts at which an answer ends."),
        key("presence_penalty", Number(-2, 2), "Penalty on tokens that occurred."),
        key("frequency_penalty", Number(-2, 2), "Penalty on tokens by how often they occurred."),
        key("reasoning_effort", NonEmpty, "How much a reasoning model thinks, such as `low`."),
    ];
    ONE_OR_MANY "OneOrMany" "A text or a list of texts." Either &[NonEmpty, List(&NonEmpty, 1)];
    LIMITS "Limits" "Limits of a thread." Keys &[
        key("steps", COUNT, "Steps of the thread; 200 without it."),
        key("visits", COUNT, "Visits of each role, in a lane."),
        key("model_calls", COUNT, "Model calls of one step; 100 without it."),
        key("tool_calls", COUNT, "Tool calls of one step; 200 without it."),
        key("tokens", COUNT, "Prompt and output tokens of the thread."),
        key("cost_usd", Cost, "US dollars that the thread may cost."),
        key("wall_time", Shape::Duration, "Time that the thread runs; waiting for people does not count."),
        key("depth", COUNT, "Nesting of child workflows; 8 without it."),
    ];
    ROLE_LIMITS "RoleLimits" "Limits of a role." Keys &[
        key("visits", COUNT, "Visits of the role, in a lane."),
        key("model_calls", COUNT, "Model calls of one of its steps."),
        key("tool_calls", COUNT, "Tool calls of one of its steps."),
        key("tokens", COUNT, "Prompt and output tokens of all its steps."),
        key("cost_usd", Cost, "US dollars of all its steps."),
    ];
    SERVE "Serve" "How a chat client uses the workflow as a model." Keys &[
        key("message", Text, "The input that the client's message fills; without it the only required text."),
        key("answer", Text, "The key of the result that answers it; without it a result that is a text, or its JSON."),
    ];
    DURATION "Duration" "Digits and one unit: `250ms 30s 10m 2h 3d`." Pattern "^[0-9]+(ms|s|m|h|d)$";
    SIZE "Size" "Bytes, or digits and a unit: `32KiB 8MiB`." Either &[COUNT, Shape::Pattern("^[0-9]+(B|KiB|MiB|GiB)$")];

    FORMAT "AnswerFormat" "How an answer is written." Words &[
        ("frontmatter", "YAML front matter, then the body in Markdown."),
        ("json", "One JSON object, held to a schema by the provider."),
    ];
    HISTORY "History" "How much of a role's own earlier visits its conversation holds." Words &[
        ("condensed", "Prompt and conclusion of each visit."),
        ("exact", "Everything, tool traffic and repairs too."),
        ("none", "Nothing: each visit is a fresh conversation."),
    ];
    CONTEXT "Context" "Which of the other roles' steps the prompt lists."
        Either &[Shape::Named(&CONTEXT_WHAT), Shape::Named(&CHOSEN_CONTEXT)];
    CONTEXT_WHAT "ContextWhat" "How much of a step the prompt lists." Words &[
        ("none", "Nothing."),
        ("outputs", "Role, status and fields."),
        ("bodies", "Those and the body."),
    ];
    CHOSEN_CONTEXT "ChosenContext" "How much, of whom." Keys &[
        key("from", List(&Shape::RoleName, 0), "The roles whose steps are listed; all others without it."),
        key("what", Shape::Named(&CONTEXT_WHAT), "How much of each step."),
        key("max_bytes", Shape::Size, "The most bytes of one list."),
    ];
    RETRY "Retry" "How an attempt that failed is repeated." Keys &[
        key("attempts", Count(1, MAX_ATTEMPTS), "All attempts, with the first."),
        key("backoff", Shape::Duration, "The pause before the second attempt; it doubles."),
        key("faults", List(&Shape::Named(&RETRY_FAULT), 0), "The faults that are tried again."),
    ];
    RETRY_FAULT "RetryFault" "A fault that another attempt may cure." Words &[
        ("rate_limit", "The provider asks for fewer requests."),
        ("server", "The provider has a fault of its own."),
        ("timeout", "The provider was silent for too long."),
        ("network", "The provider could not be reached, or the connection broke."),
    ];
    COMPACT "Compact" "Older visits are put into one text." Keys &[
        required("at", COUNT, "Estimated tokens."),
        required("keep", Count(0, u64::MAX), "Visits that stay."),
        required("by", Shape::RoleName, "The role that writes the text."),
    ];
    SELECT_BY "SelectBy" "Who chooses for a selector."
        Either &[Shape::Named(&SELECT_WORD), Shape::Named(&SELECT_EXPRESSION)];
    SELECT_WORD "SelectWord" "Who chooses for a selector."
        Words &[
            ("model", "A model."),
            ("round_robin", "The next status in declared order."),
            ("least_recent", "The status whose role spoke longest ago."),
            ("human", "A person, by a form."),
        ];
    SELECT_EXPRESSION "SelectExpression" "An expression that yields a status."
        Keys &[required("expression", Shape::Expression, "It yields the status.")];
    TOOL_OUTPUT "ToolOutput" "The fields that are read from a tool's text."
        Keys &[key("ok", Shape::StatusFields, "Its fields, read from the text as JSON.")];
    SYSTEM "System" "A system text: a text, a file, or a list of both."
        Either &[Shape::Named(&SYSTEM_PIECE), List(&Shape::Named(&SYSTEM_PIECE), 0)];
    SYSTEM_PIECE "SystemPiece" "A piece of a system text."
        Either &[Text, Shape::Named(&SYSTEM_FILE), Shape::Named(&SYSTEM_TEXT)];
    SYSTEM_FILE "SystemFile" "A file in the workflow's folder." Keys &[FILE, RAW];
    SYSTEM_TEXT "SystemText" "A text." Keys &[TEXT, RAW];

    EDGES "Edges" "An edge, or a list of edges that is tried in order."
        Either &[Shape::Named(&EDGE), List(&Shape::Named(&LISTED_EDGE), 1)];
    LISTED_EDGE "ListedEdge" "An edge of a list: with `when`, or as the last one under `else`."
        Either &[Shape::Named(&EDGE), Shape::Named(&ELSE_EDGE)];
    ELSE_EDGE "ElseEdge" "Where to go when no condition holds." Keys &[required("else", Shape::Named(&EDGE), "The edge.")];
    EDGE "Edge" "From a status to the next role, with the prompt that it is given." Keys &[
        required("to", Shape::Named(&TO), "A role, `end`, `fail`, `back`, or a list of branches."),
        key("prompt", Shape::Prompt, "A template."),
        key("attach", List(&Text, 1), "The files that go with the prompt: `input.NAME` of inputs of the type `file` or `file[]`."),
        key("when", Shape::Condition, "A condition."),
        key("max", SMALL, "How often it may be taken in a thread."),
        key("per", Shape::RoleName, "The role at each of whose steps the count restarts."),
        key("on_max", Shape::Named(&EDGE), "Where it leads once it has been taken `max` times."),
        key("say", Source, "A line for the user: a template."),
        key("reason", Source, "Why, at `fail`: a template."),
        key("result", Template, "What the run gives back: templates at the leaves."),
        key("each", Shape::Expression, "An expression that yields a list: a lane for each element."),
        key("as", Text, "The name of the element in the lane's prompts."),
        key("parallel", Count(1, MAX_LANES), "How many lanes run at once."),
        key("join", Shape::Named(&JOIN), "Where the lanes meet."),
    ];
    TO "To" "Where an edge leads." Either &[Text, List(&Shape::Named(&BRANCH), 1)];
    BRANCH "Branch" "A branch of a fan-out." Either &[Text, Shape::Named(&FULL_BRANCH)];
    FULL_BRANCH "FullBranch" "A branch with a prompt of its own." Keys &[
        required("to", Text, "The role."),
        key("prompt", Shape::Prompt, "Its prompt; without it the one of the edge."),
        key("attach", List(&Text, 1), "Its files; without it those of the edge."),
        key("when", Shape::Condition, "A condition; the branch is left out when it is false."),
    ];
    PROMPT "Prompt" "A template, or a file that holds one." Either &[Text, Shape::Named(&PROMPT_FILE)];
    PROMPT_FILE "PromptFile" "A file in the workflow's folder." Keys &[FILE];
    EXPRESSION "Expression" "An expression without braces." Either &[Text, Boolean];
    JOIN "Join" "Where lanes meet." Either &[Text, Shape::Named(&FULL_JOIN)];
    FULL_JOIN "FullJoin" "Where lanes meet, and how." Keys &[
        required("to", Text, "The role where the lanes meet."),
        key("prompt", Shape::Prompt, "Its prompt; without it the parts of the lanes."),
        key("need", Shape::Named(&NEED), "How many lanes must arrive; `all` without it."),
        key("failed", Shape::Named(&FAILED_LANES), "What a failed lane does; `fail` without it."),
    ];
    NEED "Need" "How many lanes must arrive." Either &[Shape::Named(&NEED_WORD), SMALL];
    NEED_WORD "NeedWord" "How many lanes must arrive." Words &[("all", "Every lane."), ("any", "The first one.")];
    FAILED_LANES "FailedLanes" "What a failed lane does to its fan-out." Words &[
        ("fail", "It fails the fan-out."),
        ("collect", "It stays in `branches` with its error."),
        ("skip", "It is left out."),
    ];
}
