//! The checked form of an expression: what a template may say, and nothing else.

use std::fmt;
use std::ops::Range;

use super::number::Rounding;
use crate::canonical::Value;

/// An expression in its checked form.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// Where it stands in the source, in bytes.
    pub(crate) range: Range<usize>,
    /// What it says.
    pub(crate) node: Node,
}

/// What an expression says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A value written out.
    Const(Value),
    /// A path from a root or a loop's name.
    Path(Path),
    /// `loop.index` of the innermost loop, from 1.
    LoopIndex,
    /// A member of something that is not a path.
    Member(Box<Expr>, Segment),
    /// A list written out.
    List(Vec<Expr>),
    /// `not`.
    Not(Box<Expr>),
    /// A number with its sign turned.
    Negate(Box<Expr>),
    /// `and`.
    And(Box<Expr>, Box<Expr>),
    /// `or`.
    Or(Box<Expr>, Box<Expr>),
    /// A calculation with two numbers.
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    /// `~`: two texts as one.
    Concat(Box<Expr>, Box<Expr>),
    /// One comparison or a chain of them, each of which must hold.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `then if test else otherwise`.
    If {
        /// The condition.
        test: Box<Expr>,
        /// What it is when the condition holds.
        then: Box<Expr>,
        /// What it is otherwise.
        otherwise: Box<Expr>,
    },
    /// A value through a filter.
    Filter(Box<Expr>, Box<Filter>),
    /// A test of a value.
    Test(Box<Expr>, Box<Test>),
}

/// A path such as `steps.writer.output.title`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Where it begins.
    pub(crate) root: Root,
    /// How it goes on.
    pub(crate) segments: Vec<Segment>,
}

/// Where a path begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Root {
    /// At a name of the scope.
    Name(Box<str>),
    /// At a name that a loop gives: how many loops out, and which of its names.
    Local {
        /// 0 = the innermost loop.
        up: usize,
        /// 0 = the first name.
        slot: usize,
        /// The name.
        name: Box<str>,
    },
}

/// One part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A member of an object.
    Name(Box<str>),
    /// An element of a list, from 0.
    Index(usize),
}

impl Path {
    /// The name that it begins with.
    pub fn root(&self) -> &str {
        match &self.root {
            Root::Name(name) | Root::Local { name, .. } => name,
        }
    }

    /// Whether it begins at a name that a loop of the template gives.
    pub fn is_local(&self) -> bool {
        matches!(self.root, Root::Local { .. })
    }

    /// How it goes on.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The role whose step it asks for as a whole: `writer` of `steps.writer`.
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
    /// What it names in `value`: none for a member that is not there, `None` where the path breaks off.
    pub(super) fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match (self, value) {
            (Self::Name(name), Value::Object(members)) => Some(members.get(&**name).unwrap_or(&Value::Null)),
            (Self::Index(index), Value::List(items)) => Some(items.get(*index).unwrap_or(&Value::Null)),
            _ => None,
        }
    }

    /// The same, taken out of a value that nobody else needs.
    pub(super) fn take(&self, value: Value) -> Option<Value> {
        match (self, value) {
            (Self::Name(name), Value::Object(mut members)) => Some(members.remove(&**name).unwrap_or_default()),
            (Self::Index(index), Value::List(items)) => Some(items.into_iter().nth(*index).unwrap_or_default()),
            _ => None,
        }
    }
}

/// A calculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

impl Arithmetic {
    /// How it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Remainder => "%",
            Self::Power => "**",
        }
    }
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

impl Comparison {
    /// How it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
        }
    }

    /// Whether it asks which of two is the larger.
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }
}

/// A test after `is`, or in `select` and `selectattr`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// Not none.
    Defined,
    /// None.
    None,
    /// A comparison with a value.
    Compare(Comparison, Expr),
    /// The boolean `true` or `false`.
    Boolean(bool),
    /// A value of one type.
    Type(TypeTest),
    /// An integer that 2 divides, or does not.
    Even(bool),
    /// An integer that another divides.
    DivisibleBy(Expr),
    /// A text that begins with another.
    StartingWith(Expr),
    /// A text that ends with another.
    EndingWith(Expr),
}

/// A type that a value can be tested for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeTest {
    Text,
    Number,
    Integer,
    Boolean,
    List,
    Object,
}

/// A filter with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Filter {
    /// Another value for what is none.
    Default(Expr),
    /// The first element.
    First,
    /// Each line further to the right.
    Indent {
        /// By how many blanks.
        width: Option<Expr>,
        /// The first line too.
        first: Option<Expr>,
        /// Empty lines too.
        blank: Option<Expr>,
    },
    /// The members of an object as pairs.
    Items,
    /// The elements as one text.
    Join {
        /// What stands between them.
        separator: Option<Expr>,
        /// What of each is meant.
        attribute: Option<Attribute>,
    },
    /// The last element.
    Last,
    /// How many elements, members or characters.
    Length,
    /// In lower case.
    Lower,
    /// What of each element is meant.
    MapAttribute(Attribute, Option<Expr>),
    /// Each element through a filter.
    MapEach(Box<Filter>),
    /// One text for another, wherever it stands.
    Replace(Expr, Expr),
    /// From the last to the first.
    Reverse,
    /// A number with fewer digits after the point.
    Round {
        /// How many.
        digits: Option<Expr>,
        /// Which way.
        rounding: Rounding,
    },
    /// The elements of which a test holds; without one, those that are true.
    Select(Option<Test>),
    /// The elements of whose member a test holds; without one, those that have it.
    SelectAttribute(Attribute, Option<Test>),
    /// In order.
    Sort {
        /// The last first.
        reverse: Option<Expr>,
        /// Whether upper and lower case differ.
        case_sensitive: Option<Expr>,
        /// By what of each.
        attribute: Option<Attribute>,
    },
    /// The numbers added up.
    Sum(Option<Attribute>),
    /// Each word with an upper-case letter first.
    Title,
    /// As JSON.
    ToJson(Option<Expr>),
    /// Without what stands around it.
    Trim(Option<Expr>),
    /// Cut to a length.
    Truncate {
        /// To how many characters.
        length: Option<Expr>,
        /// Within a word too.
        killwords: Option<Expr>,
        /// What marks the cut.
        end: Option<Expr>,
    },
    /// Each once.
    Unique {
        /// Whether upper and lower case differ.
        case_sensitive: Option<Expr>,
        /// By what of each.
        attribute: Option<Attribute>,
    },
    /// In upper case.
    Upper,
}

/// What of an element is meant, such as `output.title`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute(pub(crate) Vec<Segment>);

impl Filter {
    /// How it is written.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Default(_) => "default",
            Self::First => "first",
            Self::Indent { .. } => "indent",
            Self::Items => "items",
            Self::Join { .. } => "join",
            Self::Last => "last",
            Self::Length => "length",
            Self::Lower => "lower",
            Self::MapAttribute(..) | Self::MapEach(_) => "map",
            Self::Replace(..) => "replace",
            Self::Reverse => "reverse",
            Self::Round { .. } => "round",
            Self::Select(_) => "select",
            Self::SelectAttribute(..) => "selectattr",
            Self::Sort { .. } => "sort",
            Self::Sum(_) => "sum",
            Self::Title => "title",
            Self::ToJson(_) => "tojson",
            Self::Trim(_) => "trim",
            Self::Truncate { .. } => "truncate",
            Self::Unique { .. } => "unique",
            Self::Upper => "upper",
        }
    }

    /// The expressions among its arguments.
    pub(crate) fn arguments(&self) -> Vec<&Expr> {
        match self {
            Self::Default(value) => vec![value],
            Self::Indent { width, first, blank } => [width, first, blank].into_iter().flatten().collect(),
            Self::Join { separator, .. } => separator.iter().collect(),
            Self::MapAttribute(_, default) => default.iter().collect(),
            Self::MapEach(filter) => filter.arguments(),
            Self::Replace(old, new) => vec![old, new],
            Self::Round { digits, .. } => digits.iter().collect(),
            Self::Select(test) | Self::SelectAttribute(_, test) => test.iter().filter_map(Test::argument).collect(),
            Self::Sort { reverse, case_sensitive, .. } => [reverse, case_sensitive].into_iter().flatten().collect(),
            Self::ToJson(indent) => indent.iter().collect(),
            Self::Trim(characters) => characters.iter().collect(),
            Self::Truncate { length, killwords, end } => [length, killwords, end].into_iter().flatten().collect(),
            Self::Unique { case_sensitive, .. } => case_sensitive.iter().collect(),
            Self::First
            | Self::Items
            | Self::Last
            | Self::Length
            | Self::Lower
            | Self::Reverse
            | Self::Sum(_)
            | Self::Title
            | Self::Upper => Vec::new(),
        }
    }
}

impl Test {
    /// The expression that it compares with.
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
    /// The expressions directly within it.
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
