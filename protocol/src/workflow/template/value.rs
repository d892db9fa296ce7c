//! Templates at the leaves of a JSON value: `args` of a tool, `input` of a workflow, `result`.

use super::eval::{self, Meter};
use super::{Cause, MAX_RENDER_BYTES, RenderError, Scope, Template};
use crate::canonical::Value;
use crate::source::SourceError;

/// A JSON value whose texts are templates, in its checked form. A text that is exactly one `{{ expr }}` keeps the type
/// of its value; none becomes `null`.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueTemplate {
    source: Value,
    /// The texts of `source` in its order.
    leaves: Vec<Leaf>,
}

/// A template within a value, and its path.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Its path: a sequence of `.key` and `[index]`; empty at the root.
    pub place: String,
    pub template: Template,
}

impl ValueTemplate {
    /// Parses every text of `source`.
    ///
    /// # Errors
    /// The faults of each faulty text, with its path as in [`Leaf::place`].
    pub fn parse(source: &Value) -> Result<Self, Vec<(String, Vec<SourceError>)>> {
        let (mut leaves, mut faults) = (Vec::new(), Vec::new());
        for (place, text) in texts_of(source, String::new()) {
            match Template::parse(text) {
                Ok(template) => leaves.push(Leaf { place, template }),
                Err(found) => faults.push((place, found)),
            }
        }
        if faults.is_empty() { Ok(Self { source: source.clone(), leaves }) } else { Err(faults) }
    }

    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Renders the value over `scope`. `max_bytes` is the limit for all its texts together.
    ///
    /// # Errors
    /// [`RenderError`] with a range in the text that failed.
    pub fn render(&self, scope: &dyn Scope, max_bytes: usize) -> Result<Value, RenderError> {
        let mut left = max_bytes;
        // One meter for all texts, because a file may contain thousands of them.
        let meter = Meter::new();
        let mut texts = self.leaves.iter().map(|leaf| render_text(&leaf.template, scope, &mut left, &meter));
        let value = with_texts(&self.source, &mut texts)?;
        // The levels around a text in the file add to those of its value.
        value.check_depth().map_err(|_| Cause::TooDeep)?;
        Ok(value)
    }

    /// The path of the text that made [`render`](Self::render) fail with `error`, as in [`Leaf::place`]; `None` if only
    /// all texts together exceed a limit.
    pub fn failing_leaf(&self, scope: &dyn Scope, error: &RenderError) -> Option<String> {
        let meter = Meter::new();
        let fails = |leaf: &&Leaf| {
            let mut left = MAX_RENDER_BYTES;
            render_text(&leaf.template, scope, &mut left, &meter).err().as_ref() == Some(error)
        };
        self.leaves.iter().find(fails).map(|leaf| leaf.place.clone())
    }
}

/// The texts of a value in its order, each with its path.
fn texts_of(value: &Value, place: String) -> Vec<(String, &str)> {
    match value {
        Value::Str(text) => vec![(place, text)],
        Value::List(items) => {
            items.iter().enumerate().flat_map(|(at, item)| texts_of(item, format!("{place}[{at}]"))).collect()
        }
        Value::Object(members) => {
            members.iter().flat_map(|(key, value)| texts_of(value, format!("{place}.{key}"))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => Vec::new(),
    }
}

/// The value with `texts` in place of its own.
fn with_texts(
    value: &Value,
    texts: &mut impl Iterator<Item = Result<Value, RenderError>>,
) -> Result<Value, RenderError> {
    match value {
        Value::Str(_) => texts.next().unwrap_or(Ok(Value::Null)),
        Value::List(items) => {
            items.iter().map(|item| with_texts(item, texts)).collect::<Result<_, _>>().map(Value::List)
        }
        Value::Object(members) => {
            members.iter().map(|(key, value)| Ok((key.clone(), with_texts(value, texts)?))).collect()
        }
        fixed => Ok(fixed.clone()),
    }
}

fn render_text(template: &Template, scope: &dyn Scope, left: &mut usize, meter: &Meter) -> Result<Value, RenderError> {
    if let Some(expr) = template.single() {
        return eval::value_within(expr, scope, left, meter);
    }
    let text = eval::render_within(template.statements(), scope, *left, meter)?;
    *left -= text.len();
    Ok(Value::Str(text))
}
