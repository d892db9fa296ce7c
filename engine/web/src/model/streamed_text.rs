//! The text of a run while its last role writes it, for clients that show an answer as it comes.
//!
//! What was sent cannot be taken back. So a role's text is sent only if the run can only end after it, and ends with
//! just that text. Where an answer turns out otherwise (it was refused, its attempt failed, a tool was asked for), the
//! new text follows the old one after a blank line.

use std::collections::BTreeMap;

use rondo::agent_kit::answer::{AnswerPart, StreamedAnswer};
use rondo::core::graph::{Edge, Graph, To};
use rondo::protocol::event::{Visit, What};
use rondo::protocol::id::{RoleName, Status};
use rondo::protocol::workflow::template::{Path, Segment, ValueTemplate};
use rondo::protocol::workflow::{AnswerFormat, RoleKind};

/// What stands between a text and the one that replaces it.
const BREAK: &str = "\n\n";

type AnsweringRoles = BTreeMap<RoleName, (AnswerPart, AnswerFormat)>;

/// The roles whose text is that of a run, which is answered by its result's key `answer`, or by the whole of it.
fn answering_roles(graph: &Graph, answer: Option<&str>) -> AnsweringRoles {
    let answering = graph.roles().filter_map(|(name, role)| {
        let RoleKind::Model(model) = &role.kind else { return None };
        let statuses = role.output.iter().map(|(status, _)| status);
        let part = part_of_result(graph, name, statuses, answer)?;
        Some((name.clone(), (part, model.format)))
    });
    answering.collect()
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
    let mut leaves = result.leaves().iter();
    let leaf = leaves.find(|leaf| leaf.place.is_empty() || member.as_deref() == Some(leaf.place.as_str()))?;
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

#[derive(Debug, Default)]
pub struct StreamedText {
    roles: AnsweringRoles,
    call: Option<(Visit, u32, StreamedAnswer)>,
    sent: SentText,
}

impl StreamedText {
    /// That of a run which is answered by its result's key `answer`, or by the whole of it.
    pub fn new(graph: &Graph, answer: Option<&str>) -> Self {
        Self { roles: answering_roles(graph, answer), ..Self::default() }
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
        let Some((part, format)) = self.roles.get(&visit.role).filter(|_| visit.lane.is_trunk()) else {
            return String::new();
        };
        let is_same = |(of, number, _): &(Visit, u32, StreamedAnswer)| (of, *number) == (visit, attempt);
        if !self.call.as_ref().is_some_and(is_same) {
            self.sent.begin();
            self.call = Some((visit.clone(), attempt, StreamedAnswer::only(part.clone(), *format)));
        }
        let words = self.call.as_mut().map(|(.., answer)| answer.push(text)).unwrap_or_default();
        self.sent.add(&words)
    }

    pub fn end(&mut self, whole: &str) -> String {
        self.sent.end(whole)
    }
}

/// The text that was sent, and how much of it an answer that begins again has repeated so far.
#[derive(Debug, Default)]
struct SentText {
    text: String,
    matched: usize,
}

impl SentText {
    fn begin(&mut self) {
        self.matched = 0;
    }

    fn add(&mut self, words: &str) -> String {
        let known = self.text.get(self.matched..).unwrap_or_default();
        if known.starts_with(words) {
            self.matched += words.len();
            return String::new();
        }
        let new = words.strip_prefix(known).map(str::to_owned);
        self.text.truncate(self.matched);
        let new = new.unwrap_or_else(|| BREAK.to_owned() + &self.text + words);
        self.text.push_str(words);
        self.matched = self.text.len();
        new
    }

    fn end(&mut self, whole: &str) -> String {
        self.begin();
        let new = self.add(whole);
        if self.matched == self.text.len() {
            return new;
        }
        // More was sent than the answer has.
        whole.clone_into(&mut self.text);
        self.matched = whole.len();
        BREAK.to_owned() + whole
    }
}

#[cfg(test)]
mod tests;
