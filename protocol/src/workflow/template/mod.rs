//! Templates: the texts that a workflow fills in, and the expressions for its decisions.
//!
//! A template is parsed once into a checked form ([`Template`], [`Expr`]) and rendered over a [`Scope`], which is asked
//! only for what the template reads. The language is a subset of Jinja: printing, `if`, `for`, comparisons, arithmetic,
//! a fixed list of filters and tests. Parsing uses minijinja's parser, only in `parse.rs`; this module defines the
//! semantics, for the reasons in the decision record `engine/docs/decisions/0002-templates.md`.
//!
//! Laws: no input makes parsing or rendering panic or overflow the stack; every render has a limit on its output, its
//! work and its intermediate values; a render depends only on its scope; printed text is never parsed as a template
//! again.
//!
//! This module knows nothing of graphs, roles or types; [`super::check`] decides what may be read where.

mod bind;
mod eval;
pub(crate) mod expr;
mod filter;
mod number;
mod parse;
mod scope;
mod slip;
mod value;

use std::ops::Range;

pub(crate) use bind::filter_called;
pub use expr::{Expr, Path, Segment};
pub use scope::{Lookup, MAX_NAMES, Scope, View};
pub use value::ValueTemplate;

use crate::canonical::{self, Value};
use crate::source::SourceError;

pub const MAX_RENDER_BYTES: usize = 1024 * 1024;

/// A template in its checked form.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    statements: Vec<Statement>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Statement {
    Text {
        text: Box<str>,
        /// Paths that stand in it in single braces, which print nothing: `{body}`.
        braced: Vec<Expr>,
    },
    /// `{{ }}`.
    Print(Expr),
    /// `{% if %}`, with `elif` nested in `otherwise`.
    If { test: Expr, then: Vec<Statement>, otherwise: Vec<Statement> },
    /// `{% for %}`.
    For {
        /// One name, or two for pairs.
        names: Vec<Box<str>>,
        over: Expr,
        body: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
}

/// Why a template could not be rendered or an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct RenderError {
    pub range: Range<usize>,
    pub cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    #[error("{0} is none and cannot be printed")]
    NonePrinted(String),
    #[error("{0} is not there: the path breaks off")]
    BreaksOff(String),
    #[error("a {0} is not printed as it is; `join` or `tojson` makes a text of it")]
    NotPrintable(&'static str),
    #[error("`{operation}` does not take a {found}")]
    Operand { operation: &'static str, found: &'static str },
    #[error("a {left} and a {right} cannot be ordered")]
    NotOrdered { left: &'static str, right: &'static str },
    #[error("a {0} is not a condition")]
    NotACondition(&'static str),
    #[error("a number is outside ±(2^64-1) or not finite")]
    NumberRange,
    #[error("a number is divided by zero")]
    DivisionByZero,
    #[error("it produces more than {max_bytes} bytes")]
    TooLarge { max_bytes: usize },
    #[error("with `{of}`, which has {bytes} bytes, it comes to more than {max_bytes} bytes")]
    TooLargeBy { of: String, bytes: usize, max_bytes: usize },
    #[error("{}", canonical::Error::ValueTooDeep)]
    TooDeep,
    #[error("it takes too much work")]
    TooMuchWork,
}

impl From<Cause> for RenderError {
    /// An error without a range; the innermost enclosing expression sets it.
    fn from(cause: Cause) -> Self {
        Self { range: 0..0, cause }
    }
}

impl Cause {
    fn within(self, range: &Range<usize>) -> RenderError {
        RenderError { range: range.clone(), cause: self }
    }
}

impl RenderError {
    fn within(mut self, range: &Range<usize>) -> Self {
        if self.range == (0..0) {
            self.range = range.clone();
        }
        self
    }
}

/// A path that a template reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Use<'t> {
    /// The path; it begins at a root of the scope.
    pub path: &'t Path,
    pub range: Range<usize>,
}

impl Template {
    pub fn parse(source: &str) -> Result<Self, Vec<SourceError>> {
        Ok(Self { statements: parse::template(source)? })
    }

    pub(crate) fn statements(&self) -> &[Statement] {
        &self.statements
    }

    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// The expression, when the template is exactly one `{{ }}`.
    pub fn single(&self) -> Option<&Expr> {
        match self.statements.as_slice() {
            [Statement::Print(expr)] => Some(expr),
            _ => None,
        }
    }

    /// The paths that it reads from its scope, in source order.
    pub fn uses(&self) -> Vec<Use<'_>> {
        let exprs = all(&self.statements).into_iter().filter_map(|statement| match statement {
            Statement::Text { .. } => None,
            Statement::Print(expr) | Statement::If { test: expr, .. } | Statement::For { over: expr, .. } => Some(expr),
        });
        let mut uses: Vec<_> = exprs.flat_map(Expr::uses).collect();
        uses.sort_by_key(|found| (found.range.start, found.range.end));
        uses
    }

    /// The conditions of its `{% if %}`, in source order.
    pub fn conditions(&self) -> Vec<&Expr> {
        let conditions = all(&self.statements).into_iter().filter_map(|statement| match statement {
            Statement::If { test, .. } => Some(test),
            _ => None,
        });
        conditions.collect()
    }

    /// Renders the template over `scope`.
    ///
    /// # Errors
    /// [`RenderError`] with a range in the source; there is no partial output.
    pub fn render(&self, scope: &dyn Scope, max_bytes: usize) -> Result<String, RenderError> {
        eval::render_within(&self.statements, scope, max_bytes, &eval::Meter::new())
    }
}

impl Expr {
    /// Parses a bare expression: from `when`, `each` and the fields of a rule.
    ///
    /// # Errors
    /// As [`Template::parse`]; braces are an error with a hint.
    pub fn parse(source: &str) -> Result<Self, Vec<SourceError>> {
        parse::expression(source)
    }

    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    pub fn uses(&self) -> Vec<Use<'_>> {
        let mut uses = self.gather(|expr| match &expr.node {
            expr::Node::Path(path) if !path.is_local() => Some(Use { path, range: expr.range.clone() }),
            _ => None,
        });
        uses.sort_by_key(|found| (found.range.start, found.range.end));
        uses
    }

    pub fn constants(&self) -> Vec<&Value> {
        self.gather(|expr| if let expr::Node::Const(value) = &expr.node { Some(value) } else { None })
    }

    /// What `pick` takes of it and of each part within it, outer ones first.
    fn gather<'t, T>(&'t self, pick: impl Fn(&'t Self) -> Option<T> + Copy) -> Vec<T> {
        let within = self.parts().into_iter().flat_map(|part| part.gather(pick));
        pick(self).into_iter().chain(within).collect()
    }

    pub fn eval(&self, scope: &dyn Scope) -> Result<Value, RenderError> {
        eval::value(self, scope)
    }

    /// Whether it is true: a boolean, or a path whose value is present.
    pub fn truth(&self, scope: &dyn Scope) -> Result<bool, RenderError> {
        eval::condition(self, scope)
    }
}

/// The statements and those within them, outer ones first.
fn all(statements: &[Statement]) -> Vec<&Statement> {
    let mut found = Vec::new();
    for statement in statements {
        found.push(statement);
        if let Statement::If { then: body, otherwise, .. } | Statement::For { body, otherwise, .. } = statement {
            found.extend(all(body));
            found.extend(all(otherwise));
        }
    }
    found
}

pub fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "none",
        Value::Bool(_) => "boolean",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Str(_) => "text",
        Value::List(_) => "list",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests;
