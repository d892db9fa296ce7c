//! Reads a cassette strictly and reports every fault with its line and column.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::call::{Billed, Fault, ModelAnswer};
use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::{Digest, canonical, message};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::cassette::{Cassette, Link, Take};
use super::format::{
    ATTEMPT, AttemptLine, Count, END, EndLine, HEAD, HeadLine, MAX_BYTES, MAX_HEAD_BYTES, MAX_LINE_BYTES, MESSAGE,
    MessageLine, TITLE, TitleLine, VERSION, first_member, sealed, unsealed,
};

const MAX_FAULTS: usize = 20;

impl Cassette {
    /// Reads the text of the file `name`.
    ///
    /// # Errors
    /// All faults in file order: invalid JSON, unknown keys, a cut or modified file, another version. Faults that may
    /// follow from an earlier one are not listed.
    pub fn read(name: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = Reader::new(name, text);
        reader.read();
        if reader.faults.is_empty() { Ok(reader.cassette) } else { Err(reader.faults) }
    }
}

/// The one member of the first line that every version has.
#[derive(Deserialize)]
struct Versioned {
    rondo_cassette: Box<RawValue>,
}

type AttemptKey = (RoleName, LanePath, u64, u32, u32);

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    cassette: Cassette,
    faults: Vec<Diagnostic>,
    /// The byte offset of the current line.
    at: usize,
    /// The number of the current line, from 1.
    line: u32,
    end: Option<Count>,
    /// Each attempt by its request and its site.
    places: BTreeSet<(Digest, AttemptKey)>,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str, text: &'a str) -> Self {
        let cassette = Cassette {
            name: name.to_owned(),
            digest: Digest::sha256(text.as_bytes()),
            heads: BTreeMap::new(),
            messages: BTreeMap::new(),
            order: Vec::new(),
            takes: Vec::new(),
            by_request: BTreeMap::new(),
        };
        Self { name, text, cassette, faults: Vec::new(), at: 0, line: 0, end: None, places: BTreeSet::new() }
    }

    fn read(&mut self) {
        if self.text.len() > MAX_BYTES {
            let message = format!("the recording has {} bytes; {MAX_BYTES} are read", self.text.len());
            return self.fault(Code::CassetteShape, 0, message);
        }
        if self.text.is_empty() {
            return self.no_recording("it is empty");
        }
        for line in self.text.split_inclusive('\n') {
            self.line = self.line.saturating_add(1);
            let content = line.strip_suffix('\n').unwrap_or(line);
            self.line(content.strip_suffix('\r').unwrap_or(content), line.ends_with('\n'));
            if self.line == 1 && !self.faults.is_empty() || self.faults.len() >= MAX_FAULTS {
                // The lines of another kind of file, or of another version, mean nothing here.
                return;
            }
            self.at += line.len();
        }
        if self.faults.is_empty() && self.end.is_none() {
            self.at = self.text.len();
            self.cut(0, "the recording has no end");
        }
    }

    fn line(&mut self, line: &str, is_ended: bool) {
        if self.line == 1 && first_member(line) != Some(TITLE) {
            return self.no_recording("its first line does not begin with `rondo_cassette`");
        }
        if line.len() > MAX_LINE_BYTES {
            let message = format!("the line has {} bytes; {MAX_LINE_BYTES} are read", line.len());
            return self.fault(Code::CassetteShape, 0, message);
        }
        let body = unsealed(line);
        // A line that matches its seal is whole, even if an editor removed the newline after it.
        if !is_ended && body.is_none() {
            return self.cut(line.len(), "the recording ends in the middle of a line");
        }
        if let Err(error) = serde_json::from_str::<IgnoredAny>(line) {
            return self.json(line, &error);
        }
        if self.line == 1 && !self.is_of_this_version(line) {
            return;
        }
        if self.end.is_some() {
            return self.fault(Code::CassetteShape, 0, "something follows the line that ends the recording");
        }
        let Some(body) = body else {
            let at = line.rfind("\"seal\"").unwrap_or_default();
            let message = "the line was changed after it was recorded: its seal does not fit";
            return self.fault(Code::CassetteChanged, at, message);
        };
        match (self.line, first_member(&body)) {
            (1, _) => drop(self.shape::<TitleLine>(&body)),
            (_, Some(HEAD)) => self.head(&body),
            (_, Some(MESSAGE)) => self.message(&body),
            (_, Some(ATTEMPT)) => self.attempt(&body),
            (_, Some(END)) => self.end(&body),
            _ => {
                let message = format!("a line begins with `{HEAD}`, `{MESSAGE}`, `{ATTEMPT}` or `{END}`");
                self.fault(Code::CassetteShape, 0, message);
            }
        }
    }

    fn is_of_this_version(&mut self, line: &str) -> bool {
        let version = serde_json::from_str::<Versioned>(line).map(|line| line.rondo_cassette);
        let version = version.as_ref().map_or("?", |version| version.get());
        if version == VERSION.to_string() {
            return true;
        }
        let at = line.find(TITLE).map_or(0, |at| at + TITLE.len() + "\":".len());
        let shown: String = version.chars().take(20).collect();
        let message = format!("the recording is of format version {shown}, and this rondo reads {VERSION}");
        self.fault_with_hint(
            Code::CassetteVersion,
            at,
            message,
            "record it again, or play it with the rondo that wrote it",
        );
        false
    }

    fn no_recording(&mut self, why: &str) {
        let message = format!("this is no recording: {why}");
        self.fault_with_hint(Code::CassetteShape, 0, message, "`rondo record WORKFLOW --to FILE` writes one");
    }

    fn head(&mut self, body: &str) {
        if body.len() > MAX_HEAD_BYTES {
            let message = format!("the head has {} bytes; {MAX_HEAD_BYTES} are read", body.len());
            return self.fault(Code::CassetteShape, 0, message);
        }
        if self.shape::<HeadLine<'_>>(body).is_none() {
            return;
        }
        // Only this reader keeps every digit of the parameters' numbers.
        let Ok(HeadLine { head, digest, redacted }) = canonical::from_slice::<HeadLine<'_>>(body.as_bytes()) else {
            return self.fault(Code::CassetteShape, 0, "the head has no canonical form");
        };
        let is_own = redacted || Digest::of(Kind::Head, &*head).is_ok_and(|(own, _)| own == digest);
        if !is_own {
            return self.fault(
                Code::CassetteChanged,
                place(body, digest),
                "the head does not have the digest that stands beside it",
            );
        }
        if self.cassette.heads.insert(digest, head.into_owned()).is_some() {
            self.fault(Code::CassetteShape, place(body, digest), "the head stands twice");
        }
    }

    fn message(&mut self, body: &str) {
        let Some(MessageLine { message, after, chain, redacted }) = self.shape(body) else { return };
        if let Some(unknown) = after.filter(|after| !self.cassette.messages.contains_key(after)) {
            return self.unknown(body, unknown, "the message continues messages that no line before it holds");
        }
        if !redacted && message::link(after.unwrap_or_else(message::empty_chain), &message) != chain {
            return self.fault(
                Code::CassetteChanged,
                place(body, chain),
                "the message does not have the chain that stands beside it",
            );
        }
        let link = Link { message: message.into_owned(), after };
        if self.cassette.messages.insert(chain, link).is_some() {
            return self.fault(Code::CassetteShape, place(body, chain), "the message stands twice");
        }
        self.cassette.order.push(chain);
    }

    fn attempt(&mut self, body: &str) {
        let Some(mut line) = self.shape::<AttemptLine>(body) else { return };
        if !self.cassette.heads.contains_key(&line.head) {
            return self.unknown(body, line.head, "the attempt has a head that no line before it holds");
        }
        if let Some(chain) = line.chain.filter(|chain| !self.cassette.messages.contains_key(chain)) {
            return self.unknown(body, chain, "the attempt has messages that no line before it holds");
        }
        if message::request(line.head, line.chain.unwrap_or_else(message::empty_chain)) != line.request {
            return self.fault(
                Code::CassetteChanged,
                place(body, line.request),
                "the request is not that of the head and the messages",
            );
        }
        let outcome = match (line.reply.take(), line.fault.take()) {
            (Some(reply), None) => Ok(ModelAnswer { reply, usage: line.usage, cost_usd: line.cost_usd }),
            (None, Some(fault)) => {
                let Some(fault) = fault.into_fault() else {
                    let at = body.find("\"fault\"").unwrap_or_default();
                    return self.fault(Code::CassetteShape, at, "no provider gives such a fault");
                };
                let billed = line.usage.map(|usage| Box::new(Billed { usage, cost_usd: line.cost_usd }));
                Err(Fault { billed, ..fault })
            }
            _ => {
                let at = body.find("\"reply\"").unwrap_or_default();
                return self.fault(Code::CassetteShape, at, "an attempt has either a `reply` or a `fault`");
            }
        };
        let place = (line.role.clone(), line.lane.clone(), line.visit, line.position, line.attempt);
        if !self.places.insert((line.request, place)) {
            return self.fault(Code::CassetteShape, 0, "the attempt stands twice");
        }
        self.cassette.by_request.entry(line.request).or_default().push(self.cassette.takes.len());
        self.cassette.takes.push(Take { line: self.line, attempt: line, outcome });
    }

    fn end(&mut self, body: &str) {
        let Some(EndLine { end }) = self.shape(body) else { return };
        self.end = Some(end);
        let there = self.cassette.takes.len();
        if self.faults.is_empty() && end.attempts != there {
            let message = format!("the recording had attempts: {}, and there are: {there}", end.attempts);
            let at = body.find("\"attempts\"").unwrap_or_default();
            self.fault(Code::CassetteChanged, at, message);
        }
    }

    /// Parses the line as a `T`, or records its fault.
    fn shape<T: DeserializeOwned>(&mut self, body: &str) -> Option<T> {
        serde_json::from_str(body).map_err(|error| self.json(body, &error)).ok()
    }

    fn json(&mut self, line: &str, error: &serde_json::Error) {
        let words = error.to_string();
        let words = words.split_once(" at line ").map_or(words.as_str(), |(words, _)| words);
        let words: String = words.chars().take(200).collect();
        self.fault(Code::CassetteShape, line.floor_char_boundary(error.column().saturating_sub(1)), words);
    }

    /// Reports a reference to something that no earlier line contains. If an earlier line has a fault, that is the
    /// reason.
    fn unknown(&mut self, body: &str, digest: Digest, message: &str) {
        if self.faults.is_empty() {
            self.fault(Code::CassetteShape, place(body, digest), message);
        }
    }

    fn cut(&mut self, column: usize, message: &str) {
        let attempts = self.cassette.takes.len();
        let Ok(end) = sealed(&EndLine { end: Count { attempts } }) else { return };
        let again = "copy it whole or record it again";
        let hint = if self.line > 1 && self.faults.is_empty() {
            let place = if column > 0 { "in place of that line" } else { "at the end" };
            format!("{again}; to play what is there, write {place}: {}", end.trim_end())
        } else {
            again.to_owned()
        };
        self.fault_with_hint(Code::CassetteCut, column, message, hint);
    }

    /// Records a fault at a byte offset of the current line.
    fn fault(&mut self, code: Code, at: usize, message: impl Into<String>) {
        let span = Span::new(self.at + at, 0);
        self.faults.push(Diagnostic::at(code, self.name, self.text, span, message));
    }

    fn fault_with_hint(&mut self, code: Code, at: usize, message: impl Into<String>, hint: impl Into<String>) {
        self.fault(code, at, message);
        let last = self.faults.pop();
        self.faults.extend(last.map(|fault| fault.with_hint(hint)));
    }
}

/// The offset of a digest in a line.
fn place(body: &str, digest: Digest) -> usize {
    body.rfind(&digest.to_string()).unwrap_or_default()
}
