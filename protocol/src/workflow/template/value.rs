//! Templates at the leaves of a JSON value: `args` of a tool, `input` of a workflow, `result`.

use super::eval::{self, Meter};
use super::{Cause, MAX_RENDER_BYTES, RenderError, Scope, Template};
use crate::canonical::Value;
use crate::source::SourceError;

/// A JSON value whose texts are templates, in its checked form. A text that is exactly one `{{ expr }}` keeps the type
/// of its value; none becomes `null`.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueTemplate {
    root: TemplateNode,
}

#[derive(Debug, Clone, PartialEq)]
enum TemplateNode {
    Fixed(Value),
    /// With its path, as in [`Leaf::place`].
    Text(String, Template),
    List(Vec<TemplateNode>),
    Object(Vec<(String, TemplateNode)>),
}

/// A template within a value, and its path.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf<'t> {
    /// Its path: a sequence of `.key` and `[index]`; empty at the root.
    pub place: &'t str,
    pub template: &'t Template,
}

impl ValueTemplate {
    /// Parses every text of `source`.
    ///
    /// # Errors
    /// The faults of each faulty text, with its path as in [`Leaf::place`].
    pub fn parse(source: &Value) -> Result<Self, Vec<(String, Vec<SourceError>)>> {
        let mut faults = Vec::new();
        let root = parse(source, "", &mut faults);
        if faults.is_empty() { Ok(Self { root }) } else { Err(faults) }
    }

    pub fn leaves(&self) -> Vec<Leaf<'_>> {
        let mut leaves = Vec::new();
        gather(&self.root, &mut leaves);
        leaves
    }

    /// Renders the value over `scope`. `max_bytes` is the limit for all its texts together.
    ///
    /// # Errors
    /// [`RenderError`] with a range in the text that failed.
    pub fn render(&self, scope: &dyn Scope, max_bytes: usize) -> Result<Value, RenderError> {
        let mut left = max_bytes;
        // One meter for all texts, because a file may contain thousands of them.
        let value = render(&self.root, scope, &mut left, &Meter::new())?;
        // The levels around a text in the file add to those of its value.
        value.check_depth().map_err(|_| Cause::TooDeep)?;
        Ok(value)
    }

    /// The path of the text that made [`render`](Self::render) fail with `error`, as in [`Leaf::place`]; `None` if only
    /// all texts together exceed a limit.
    pub fn failing_leaf(&self, scope: &dyn Scope, error: &RenderError) -> Option<String> {
        let meter = Meter::new();
        let fails = |leaf: &Leaf<'_>| {
            let mut left = MAX_RENDER_BYTES;
            render_text(leaf.template, scope, &mut left, &meter).err().as_ref() == Some(error)
        };
        self.leaves().into_iter().find(fails).map(|leaf| leaf.place.to_owned())
    }
}

fn parse(source: &Value, place: &str, faults: &mut Vec<(String, Vec<SourceError>)>) -> TemplateNode {
    match source {
        Value::Str(text) => match Template::parse(text) {
            Ok(template) => TemplateNode::Text(place.to_owned(), template),
            Err(found) => {
                faults.push((place.to_owned(), found));
                TemplateNode::Fixed(Value::Null)
            }
        },
        Value::List(items) => {
            let item = |(index, item)| parse(item, &format!("{place}[{index}]"), faults);
            TemplateNode::List(items.iter().enumerate().map(item).collect())
        }
        Value::Object(members) => {
            let member = |(key, value): (&String, _)| (key.clone(), parse(value, &format!("{place}.{key}"), faults));
            TemplateNode::Object(members.iter().map(member).collect())
        }
        fixed => TemplateNode::Fixed(fixed.clone()),
    }
}

fn gather<'t>(part: &'t TemplateNode, leaves: &mut Vec<Leaf<'t>>) {
    match part {
        TemplateNode::Fixed(_) => {}
        TemplateNode::Text(place, template) => leaves.push(Leaf { place, template }),
        TemplateNode::List(items) => items.iter().for_each(|item| gather(item, leaves)),
        TemplateNode::Object(members) => members.iter().for_each(|(_, value)| gather(value, leaves)),
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

fn render(part: &TemplateNode, scope: &dyn Scope, left: &mut usize, meter: &Meter) -> Result<Value, RenderError> {
    match part {
        TemplateNode::Fixed(value) => Ok(value.clone()),
        TemplateNode::Text(_, template) => render_text(template, scope, left, meter),
        TemplateNode::List(items) => {
            items.iter().map(|item| render(item, scope, left, meter)).collect::<Result<_, _>>().map(Value::List)
        }
        TemplateNode::Object(members) => members
            .iter()
            .map(|(key, value)| Ok((key.clone(), render(value, scope, left, meter)?)))
            .collect::<Result<_, _>>()
            .map(Value::Object),
    }
}
