//! The text of a run while its last role writes it, for clients that show an answer as it comes.
//!
//! What was sent cannot be taken back. So a role's text is sent only if the run can only end after it, and ends with
//! just that text. Where an answer turns out otherwise (it was refused, its attempt failed, a tool was asked for), the
//! new text follows the old one after a blank line.

use std::collections::BTreeMap;

use rondo::agent_kit::answer::{AnswerPart, StreamedAnswer};
use rondo::protocol::event::{Visit, What};
use rondo::protocol::id::{RoleName, Status};
use rondo::protocol::workflow::template::{Path, Segment, ValueTemplate};
use rondo::protocol::workflow::{AnswerFormat, RoleKind};

use rondo::core::graph::{Edge, Graph, To};

/// What stands between a text and the one that replaces it.
const BREAK: &str = "\n\n";

/// The roles whose text is that of the run.
#[derive(Debug, Default)]
pub struct Speakers(BTreeMap<RoleName, (AnswerPart, AnswerFormat)>);

impl Speakers {
    /// Those of a workflow whose run is answered by its result's key `answer`, or by the whole of it.
    pub fn new(graph: &Graph, answer: Option<&str>) -> Self {
        let speaking = graph.roles().filter_map(|(name, role)| {
            let RoleKind::Model(model) = &role.kind else { return None };
            let statuses = role.output.iter().map(|(status, _)| status);
            let part = part_of_result(graph, name, statuses, answer)?;
            Some((name.clone(), (part, model.format)))
        });
        Self(speaking.collect())
    }
}

/// The part of a role's answer that becomes the answer of the run after each of these statuses.
fn part_of_result<'a>(
    graph: &Graph,
    role: &RoleName,
    statuses: impl Iterator<Item = &'a Status>,
    answer: Option<&str>,
) -> Option<AnswerPart> {
    let mut common = None;
    for status in statuses {
        for edge in graph.routes(role, status)?.iter().flat_map(Edge::in_turn) {
            match edge.to {
                To::Fail => {}
                To::End => {
                    let part = printed(edge.result.as_ref().or(graph.result()), role, answer)?;
                    if common.get_or_insert_with(|| part.clone()) != &part {
                        return None;
                    }
                }
                _ => return None,
            }
        }
    }
    common
}

/// The part of a role's answer that `result` is, or has as its member `answer`, and nothing else.
fn printed(result: Option<&ValueTemplate>, role: &RoleName, answer: Option<&str>) -> Option<AnswerPart> {
    let Some(result) = result else {
        return (answer == Some("body")).then_some(AnswerPart::Body);
    };
    let member = answer.map(|key| format!(".{key}"));
    let leaves = result.leaves();
    let leaf = leaves.iter().find(|leaf| leaf.place.is_empty() || member.as_deref() == Some(leaf.place))?;
    part_at(leaf.template.single()?.path()?, role)
}

fn part_at(path: &Path, role: &RoleName) -> Option<AnswerPart> {
    let names: Option<Vec<&str>> = path
        .segments()
        .iter()
        .map(|segment| if let Segment::Name(name) = segment { Some(&**name) } else { None })
        .collect();
    match (path.root(), names?.as_slice()) {
        _ if path.is_local() => None,
        ("body", []) => Some(AnswerPart::Body),
        ("output", [field]) => Some(AnswerPart::Field((*field).to_owned())),
        ("steps", [of, "body"]) if *of == role.as_str() => Some(AnswerPart::Body),
        ("steps", [of, "output", field]) if *of == role.as_str() => Some(AnswerPart::Field((*field).to_owned())),
        _ => None,
    }
}

/// What a client was told of a run's text.
#[derive(Debug, Default)]
pub struct Speech {
    speakers: Speakers,
    /// The call whose answer is read.
    call: Option<(Visit, u32, StreamedAnswer)>,
    told: Told,
}

impl Speech {
    pub fn new(speakers: Speakers) -> Self {
        Self { speakers, ..Self::default() }
    }

    /// What an event of the run adds to the text.
    pub fn read(&mut self, event: &What) -> String {
        let (visit, attempt, text) = match event {
            What::ModelDelta { visit, attempt, text } => (visit, *attempt, text),
            // Another answer follows, if any.
            What::CallSettled { .. } | What::CallRetried { .. } => {
                self.call = None;
                return String::new();
            }
            _ => return String::new(),
        };
        let Some((part, format)) = self.speakers.0.get(&visit.role).filter(|_| visit.lane.is_trunk()) else {
            return String::new();
        };
        let is_same = |(of, number, _): &(Visit, u32, StreamedAnswer)| (of, *number) == (visit, attempt);
        if !self.call.as_ref().is_some_and(is_same) {
            self.told.begin();
            self.call = Some((visit.clone(), attempt, StreamedAnswer::only(part.clone(), *format)));
        }
        let words = self.call.as_mut().map(|(.., answer)| answer.push(text)).unwrap_or_default();
        self.told.add(&words)
    }

    /// What is left to tell when the whole text is known.
    pub fn end(&mut self, whole: &str) -> String {
        self.told.end(whole)
    }
}

/// A text that is told again from its beginning, to somebody who remembers what was told last.
#[derive(Debug, Default)]
struct Told {
    last: String,
    /// How many bytes of it were told again.
    again: usize,
}

impl Told {
    fn begin(&mut self) {
        self.again = 0;
    }

    /// What is new in the next words.
    fn add(&mut self, words: &str) -> String {
        let known = self.last.get(self.again..).unwrap_or_default();
        if known.starts_with(words) {
            self.again += words.len();
            return String::new();
        }
        let new = words.strip_prefix(known).map(str::to_owned);
        if new.is_none() {
            self.last.truncate(self.again);
        }
        let new = new.unwrap_or_else(|| BREAK.to_owned() + &self.last + words);
        self.last.truncate(self.again);
        self.last.push_str(words);
        self.again = self.last.len();
        new
    }

    fn end(&mut self, whole: &str) -> String {
        self.begin();
        let new = self.add(whole);
        if self.again == self.last.len() {
            return new;
        }
        // More was told than is true.
        whole.clone_into(&mut self.last);
        self.again = whole.len();
        BREAK.to_owned() + whole
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Graph, Speakers, Told};

    /// The roles that speak in a workflow of a writer and an editor, with these lines at its end.
    fn speaking(outputs: &str, graph: &str, answer: Option<&str>) -> Vec<String> {
        let text = format!(
            "rondo: 1\nname: t\nroles:\n  writer: {{ system: W. }}\n  editor: {{ system: E., {outputs} }}\n\
             graph:\n  start: {{ to: writer, prompt: Go. }}\n  writer: {{ done: {{ to: editor, prompt: Go on. }} }}\n{graph}\n"
        );
        let checked = rondo::protocol::workflow::read("workflow.yaml", &text, &BTreeMap::new()).unwrap();
        let graph = Graph::new(&checked.workflow, &checked.policy, Vec::new()).unwrap();
        let speakers = Speakers::new(&graph, answer);
        speakers.0.iter().map(|(role, (part, _))| format!("{role} {part:?}")).collect()
    }

    #[test]
    fn a_role_speaks_if_the_run_can_only_end_after_it_with_just_its_text() {
        let one = "output: { done: {} }";
        let end = "  editor: { done: { to: end } }";
        let body = "editor Body";
        assert_eq!(speaking(one, &format!("{end}\nresult: '{{{{ steps.editor.body }}}}'"), None), [body]);
        assert_eq!(speaking(one, &format!("{end}\nresult: {{ a: '{{{{ body }}}}', b: x }}"), Some("a")), [body]);
        // The result of an edge stands before that of the workflow.
        let of_edge = "  editor: { done: { to: end, result: '{{ body }}' } }\nresult: x";
        assert_eq!(speaking(one, of_edge, None), [body]);
        let field = "output: { done: { text: string }, again: {} }, format: json";
        let failing = "  editor: { done: { to: end, result: '{{ output.text }}' }, again: { to: fail, reason: no } }";
        assert_eq!(speaking(field, failing, None), [r#"editor Field("text")"#]);

        let silent = |outputs, graph: &str, answer| assert_eq!(speaking(outputs, graph, answer), [""; 0], "{graph}");
        // The result is JSON, has words of its own, or the text of another.
        silent(one, end, None);
        silent(one, &format!("{end}\nresult: {{ a: '{{{{ body }}}}' }}"), None);
        silent(one, &format!("{end}\nresult: 'So: {{{{ body }}}}'"), None);
        silent(one, &format!("{end}\nresult: '{{{{ steps.writer.body }}}}'"), None);
        // The run may go on, or end with another part.
        let two = "output: { done: {}, again: {} }";
        let on = "  editor: { done: { to: end }, again: { to: writer, prompt: Again., max: 2, on_max: { to: end } } }";
        silent(two, &format!("{on}\nresult: '{{{{ steps.editor.body }}}}'"), None);
        let other = "  editor: { done: { to: end, result: '{{ body }}' }, again: { to: end, result: no } }";
        silent(two, other, None);
    }

    #[test]
    fn what_is_told_again_is_told_once_and_what_differs_is_told_whole() {
        let mut told = Told::default();
        assert_eq!([told.add("One "), told.add("two")], ["One ", "two"]);
        // The same again, in other pieces, and on.
        told.begin();
        assert_eq!([told.add("O"), told.add("ne two thr"), told.add("ee")], ["", " thr", "ee"]);
        assert_eq!(told.end("One two three."), ".");
        // Other words.
        told.begin();
        assert_eq!([told.add("One "), told.add("four")], ["", "\n\nOne four"]);
        assert_eq!(told.end("One"), "\n\nOne");
        assert_eq!(told.end("One"), "");
    }
}
