//! The checked form of an expression, with only what the language allows.

use std::fmt;
use std::ops::Range;

use crate::canonical::Value;

/// An expression in its checked form.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub(crate) range: Range<usize>,
    pub(crate) node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Const(Value),
    /// A path from a root or a loop's name.
    Path(Path),
    /// `loop.index` of the innermost loop, from 1.
    LoopIndex,
    /// A member of something that is not a path.
    Member(Box<Expr>, Segment),
    List(Vec<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    /// `~`: joins two texts.
    Concat(Box<Expr>, Box<Expr>),
    /// One comparison, or a chain of them that must all hold.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `then if test else otherwise`.
    If {
        test: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Filter(Box<Expr>, Box<Filter>),
    Test(Box<Expr>, Box<Test>),
}

impl Expr {
    /// The path, when it is nothing but one.
    pub fn path(&self) -> Option<&Path> {
        if let Node::Path(path) = &self.node { Some(path) } else { None }
    }
}

/// A path such as `steps.writer.output.title`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub(crate) root: Root,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Root {
    Name(Box<str>),
    /// A loop's name: how many loops out, and which of its names.
    Local {
        /// 0 = the innermost loop.
        up: usize,
        /// 0 = the first name.
        slot: usize,
        name: Box<str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Name(Box<str>),
    /// An element of a list, from 0.
    Index(usize),
}

impl Path {
    pub fn root(&self) -> &str {
        match &self.root {
            Root::Name(name) | Root::Local { name, .. } => name,
        }
    }

    /// Whether it begins with a name of a loop in the template.
    pub fn is_local(&self) -> bool {
        matches!(self.root, Root::Local { .. })
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The role whose whole step it reads: `writer` of `steps.writer`.
    pub(crate) fn whole_step(&self) -> Option<&str> {
        match (&self.root, self.segments.as_slice()) {
            (Root::Name(root), [Segment::Name(role)]) if &**root == "steps" => Some(role),
            _ => None,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root())?;
        self.segments.iter().try_for_each(|segment| write!(f, "{segment}"))
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ".{name}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Segment {
    /// The part of `value` that it names: none for a missing member, `None` if the path breaks off.
    pub(super) fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match (self, value) {
            (Self::Name(name), Value::Object(members)) => Some(members.get(&**name).unwrap_or(&Value::Null)),
            (Self::Index(index), Value::List(items)) => Some(items.get(*index).unwrap_or(&Value::Null)),
            _ => None,
        }
    }

    /// The same, moved out of an owned value.
    pub(super) fn take(&self, value: Value) -> Option<Value> {
        match (self, value) {
            (Self::Name(name), Value::Object(mut members)) => Some(members.remove(&**name).unwrap_or_default()),
            (Self::Index(index), Value::List(items)) => Some(items.into_iter().nth(*index).unwrap_or_default()),
            _ => None,
        }
    }
}

macro_rules! operators {
    ($($name:ident { $($operator:ident $symbol:literal,)* })*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($operator),*
        }

        impl $name {
            pub(crate) fn symbol(self) -> &'static str {
                match self { $(Self::$operator => $symbol),* }
            }
        }
    )*};
}

operators! {
    Arithmetic {
        Add "+",
        Subtract "-",
        Multiply "*",
        Divide "/",
        FloorDivide "//",
        Remainder "%",
        Power "**",
    }
    Comparison {
        Equal "==",
        NotEqual "!=",
        Less "<",
        LessOrEqual "<=",
        Greater ">",
        GreaterOrEqual ">=",
        In "in",
        NotIn "not in",
    }
}

impl Comparison {
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest, halves away from zero.
    Common,
    Floor,
    Ceil,
}

/// A test after `is`, or in `select` and `selectattr`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    Defined,
    None,
    Compare(Comparison, Expr),
    Boolean(bool),
    Type(TypeTest),
    /// Whether an integer is even, or odd.
    Even(bool),
    DivisibleBy(Expr),
    StartingWith(Expr),
    EndingWith(Expr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeTest {
    Text,
    Number,
    Integer,
    Boolean,
    List,
    Object,
}

macro_rules! filters {
    ($($kind:ident $name:literal ($input:ident) $required:literal $parameters:expr;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum FilterKind {
            $($kind),*
        }

        pub(super) static FILTERS: [Signature; [$($name),*].len()] = [$(Signature {
            kind: FilterKind::$kind,
            name: $name,
            input: Input::$input,
            required: $required,
            parameters: &$parameters,
        }),*];
    };
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) kind: FilterKind,
    pub(crate) name: &'static str,
    pub(crate) input: Input,
    pub(super) required: usize,
    /// Names in positional order. `attribute` and `method` are read when the template is parsed.
    pub(super) parameters: &'static [&'static str],
}

/// The values that a filter applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Anything,
    Countable,
    List,
    ListOrText,
    Map,
    Number,
    Text,
}

filters! {
    Default "default" (Anything) 1 ["value"];
    First "first" (ListOrText) 0 [];
    Indent "indent" (Text) 0 ["width", "first", "blank"];
    Items "items" (Map) 0 [];
    Join "join" (List) 0 ["d", "attribute"];
    Last "last" (ListOrText) 0 [];
    Length "length" (Countable) 0 [];
    Lower "lower" (Text) 0 [];
    Map "map" (List) 0 ["attribute", "default"];
    Replace "replace" (Text) 2 ["old", "new"];
    Reverse "reverse" (ListOrText) 0 [];
    Round "round" (Number) 0 ["precision", "method"];
    Select "select" (List) 0 [];
    SelectAttribute "selectattr" (List) 0 [];
    Sort "sort" (List) 0 ["reverse", "case_sensitive", "attribute"];
    Sum "sum" (List) 0 ["attribute"];
    Title "title" (Text) 0 [];
    ToJson "tojson" (Anything) 0 ["indent"];
    Trim "trim" (Text) 0 ["chars"];
    Truncate "truncate" (Text) 0 ["length", "killwords", "end"];
    Unique "unique" (List) 0 ["case_sensitive", "attribute"];
    Upper "upper" (Text) 0 [];
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    pub(crate) signature: &'static Signature,
    /// In signature order, without `attribute` and `method`; `None` = not given.
    pub(super) given: Vec<Option<Expr>>,
    /// The selected part of an element, such as `output.title`.
    pub(crate) attribute: Option<Vec<Segment>>,
    pub(super) rounding: Rounding,
    /// For `select` and `selectattr`; without a test they keep true elements.
    pub(crate) test: Option<Test>,
    /// For `map`: the filter that it applies to each element.
    pub(crate) each: Option<Box<Filter>>,
}

impl Filter {
    pub(super) fn new(signature: &'static Signature) -> Self {
        Self { signature, given: Vec::new(), attribute: None, rounding: Rounding::Common, test: None, each: None }
    }

    pub(crate) fn kind(&self) -> FilterKind {
        self.signature.kind
    }

    /// The argument at a position of the signature.
    pub(crate) fn argument(&self, position: usize) -> Option<&Expr> {
        self.given.get(position)?.as_ref()
    }

    pub(crate) fn arguments(&self) -> Vec<&Expr> {
        let inner = self.each.iter().flat_map(|filter| filter.arguments());
        self.given.iter().flatten().chain(self.test.iter().filter_map(Test::argument)).chain(inner).collect()
    }
}

impl Test {
    pub(crate) fn argument(&self) -> Option<&Expr> {
        match self {
            Self::Compare(_, expr) | Self::DivisibleBy(expr) | Self::StartingWith(expr) | Self::EndingWith(expr) => {
                Some(expr)
            }
            Self::Defined | Self::None | Self::Boolean(_) | Self::Type(_) | Self::Even(_) => None,
        }
    }
}

impl Expr {
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match &self.node {
            Node::Const(_) | Node::Path(_) | Node::LoopIndex => Vec::new(),
            Node::Member(base, _) | Node::Not(base) | Node::Negate(base) => vec![base],
            Node::List(items) => items.iter().collect(),
            Node::And(left, right)
            | Node::Or(left, right)
            | Node::Arithmetic(_, left, right)
            | Node::Concat(left, right) => vec![left, right],
            Node::Compare(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
            }
            Node::If { test, then, otherwise } => vec![test, then, otherwise],
            Node::Filter(input, filter) => std::iter::once(&**input).chain(filter.arguments()).collect(),
            Node::Test(input, test) => std::iter::once(&**input).chain(test.argument()).collect(),
        }
    }
}
