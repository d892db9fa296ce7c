//! Templates at the leaves of a JSON value: `args` of a tool, `input` of a workflow, `result`.

use super::eval::{self, Meter};
use super::{Cause, MAX_RENDER_BYTES, RenderError, Scope, Template};
use crate::canonical::Value;
use crate::source::SourceError;

/// A JSON value whose texts are templates, in its checked form. A text that is exactly one `{{ expr }}` keeps the type of
/// what it yields, and is then `null` where that is none.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueTemplate {
    root: Part,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Fixed(Value),
    Text(Template),
    List(Vec<Part>),
    Object(Vec<(String, Part)>),
}

/// A template within a value, and the way to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf<'t> {
    /// Where it stands: `.key` and `[index]`, one after the other; empty at the root.
    pub place: String,
    /// The template.
    pub template: &'t Template,
}

impl ValueTemplate {
    /// Parses every text of `source`.
    ///
    /// # Errors
    /// The faults of each text that has some, with the way to it as in [`Leaf::place`].
    pub fn parse(source: &Value) -> Result<Self, Vec<(String, Vec<SourceError>)>> {
        let mut faults = Vec::new();
        let root = parse(source, &mut String::new(), &mut faults);
        if faults.is_empty() { Ok(Self { root }) } else { Err(faults) }
    }

    /// Its templates, in the order of its keys.
    pub fn leaves(&self) -> Vec<Leaf<'_>> {
        let mut leaves = Vec::new();
        gather(&self.root, &mut String::new(), &mut leaves);
        leaves
    }

    /// The value that it makes of `scope`. `max_bytes` is for all its texts together.
    ///
    /// # Errors
    /// [`RenderError`] with a place in the text that failed.
    pub fn render(&self, scope: &dyn Scope, max_bytes: usize) -> Result<Value, RenderError> {
        let mut left = max_bytes;
        // One meter for all texts, because a file may hold thousands of them.
        let value = render(&self.root, scope, &mut left, &Meter::new())?;
        // What a file writes around a text adds to the levels of what the text makes.
        value.check_depth().map_err(|_| Cause::TooDeep)?;
        Ok(value)
    }

    /// The way to the text that made [`render`](Self::render) fail with `error`, as in [`Leaf::place`]; `None` where
    /// only all texts together are too much.
    pub fn failing_leaf(&self, scope: &dyn Scope, error: &RenderError) -> Option<String> {
        let meter = Meter::new();
        let fails = |leaf: &Leaf<'_>| {
            let mut left = MAX_RENDER_BYTES;
            let found = match leaf.template.single() {
                Some(expr) => eval::value_within(expr, scope, &mut left, &meter).err(),
                None => eval::render_within(leaf.template.statements(), scope, left, &meter).err(),
            };
            found.as_ref() == Some(error)
        };
        self.leaves().into_iter().find(fails).map(|leaf| leaf.place)
    }
}

fn parse(source: &Value, place: &mut String, faults: &mut Vec<(String, Vec<SourceError>)>) -> Part {
    match source {
        Value::Str(text) => match Template::parse(text) {
            Ok(template) => Part::Text(template),
            Err(found) => {
                faults.push((place.clone(), found));
                Part::Fixed(Value::Null)
            }
        },
        Value::List(items) => Part::List(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| within(place, &format!("[{index}]"), |place| parse(item, place, faults)))
                .collect(),
        ),
        Value::Object(members) => Part::Object(
            members
                .iter()
                .map(|(key, value)| {
                    (key.clone(), within(place, &format!(".{key}"), |place| parse(value, place, faults)))
                })
                .collect(),
        ),
        fixed => Part::Fixed(fixed.clone()),
    }
}

fn gather<'t>(part: &'t Part, place: &mut String, leaves: &mut Vec<Leaf<'t>>) {
    match part {
        Part::Fixed(_) => {}
        Part::Text(template) => leaves.push(Leaf { place: place.clone(), template }),
        Part::List(items) => {
            for (index, item) in items.iter().enumerate() {
                within(place, &format!("[{index}]"), |place| gather(item, place, leaves));
            }
        }
        Part::Object(members) => {
            for (key, value) in members {
                within(place, &format!(".{key}"), |place| gather(value, place, leaves));
            }
        }
    }
}

fn within<T>(place: &mut String, part: &str, then: impl FnOnce(&mut String) -> T) -> T {
    let length = place.len();
    place.push_str(part);
    let result = then(place);
    place.truncate(length);
    result
}

fn render(part: &Part, scope: &dyn Scope, left: &mut usize, meter: &Meter) -> Result<Value, RenderError> {
    match part {
        Part::Fixed(value) => Ok(value.clone()),
        Part::Text(template) => {
            if let Some(expr) = template.single() {
                return eval::value_within(expr, scope, left, meter);
            }
            let text = eval::render_within(template.statements(), scope, *left, meter)?;
            *left -= text.len();
            Ok(Value::Str(text))
        }
        Part::List(items) => {
            items.iter().map(|item| render(item, scope, left, meter)).collect::<Result<_, _>>().map(Value::List)
        }
        Part::Object(members) => members
            .iter()
            .map(|(key, value)| Ok((key.clone(), render(value, scope, left, meter)?)))
            .collect::<Result<_, _>>()
            .map(Value::Object),
    }
}
