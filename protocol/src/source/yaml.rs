//! The YAML reader: YAML 1.2 with the core schema, based on the parser's events, which distinguish styles, tags,
//! anchors and aliases.
//!
//! Differences from the core schema: only `true` and `false` are booleans, and digits with a leading zero are a text.
//! Tags, merge keys, second documents and numbers that would lose digits or are not finite are faults.
//!
//! The tree is built with an explicit stack, so that no nesting overflows the thread's; an alias counts against the
//! same budget as the nodes that it repeats.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, StructureStyle};

use super::slip::Stop;
use super::unquoted::cut_by_comment;
use super::{
    Budget, Key, Kind, MAX_ALIASES, MAX_DEPTH, MAX_FAULTS, MAX_KEY_BYTES, Node, Parsed, SourceError, duplicate,
    excerpt, integer_out_of_range, key_too_long, line_start, not_finite, too_deep,
};
use crate::canonical::MAX_INTEGER;
use crate::diagnostic::{Code, Span};

/// Parses `text`. A syntax error or an exhausted budget ends parsing; other faults do not.
pub(super) fn read(text: &str) -> Parsed {
    let mut builder = Builder { text, ..Builder::default() };
    let end = builder.run();
    let mut faults = builder.faults;
    let is_empty = builder.root.as_ref().is_none_or(|root| root.kind == Kind::Null) && faults.is_empty();
    let end = end.and_then(|()| {
        let fault = SourceError::new(Code::EmptyFile, Span::new(0, 0), "the file is empty");
        if is_empty { Err(fault.with_hint("`rondo init` writes one")) } else { Ok(builder.root) }
    });
    let root = end.map_err(|fault| faults.push(fault)).ok().flatten();
    faults.sort_by_key(|fault| fault.span);
    Parsed { root, faults }
}

struct Frame {
    span: Span,
    anchor: usize,
    flow: bool,
    /// Whether it is in the position of a key.
    is_key: bool,
    part: OpenNode,
}

enum OpenNode {
    List(Vec<Node>),
    Map {
        entries: Vec<(Key, Node)>,
        seen: BTreeSet<String>,
        /// The key of the next value; [`Slot::Dropped`] when that value is discarded.
        slot: Slot,
    },
}

enum Slot {
    Key,
    Value(Key),
    Dropped,
}

#[derive(Default)]
struct Builder<'a> {
    text: &'a str,
    budget: Budget,
    aliases: usize,
    stack: Vec<Frame>,
    /// The node of each anchor; `None` while it is still open.
    anchors: BTreeMap<usize, Option<Node>>,
    documents: usize,
    /// The end of the last event.
    read: usize,
    root: Option<Node>,
    faults: Vec<SourceError>,
}

impl Builder<'_> {
    fn run(&mut self) -> Result<(), SourceError> {
        let mut options = Options::default();
        options.simple_key_max_lookahead = MAX_KEY_BYTES;
        // One more than this reader allows, so that this reader reports the fault.
        options.flow_nesting_limit = MAX_DEPTH + 1;
        options.block_nesting_limit = MAX_DEPTH + 1;
        options.set_emit_comments(false);
        for event in Parser::new_from_str_with_options(self.text, options) {
            let (event, place) = event.map_err(|error| self.syntax(&error))?;
            let span = Span::from(place.byte_range().unwrap_or(0..0));
            self.read = span.offset + span.length;
            let tag = place.tag_span().and_then(|tag| tag.byte_range()).and_then(|range| {
                self.tag(range.clone().into());
                self.text.get(range)
            });
            match event {
                Event::DocumentStart(..) => {
                    self.documents += 1;
                    if self.documents > 1 {
                        let fault = SourceError::new(Code::SeveralDocuments, span, "a second document begins here")
                            .with_hint("a file holds one document; put the other into a file of its own");
                        return Err(fault);
                    }
                }
                // The parser took the intended text as a tag.
                Event::Scalar(value, _, anchor, _) if value.is_empty() && tag.is_some() => {
                    self.scalar(tag.unwrap_or_default(), ScalarStyle::DoubleQuoted, anchor, span)?;
                }
                Event::Scalar(value, style, anchor, _) => self.scalar(&value, style, anchor, span)?,
                Event::SequenceStart(style, anchor, _) => {
                    self.open(OpenNode::List(Vec::new()), style, anchor, span)?;
                }
                Event::MappingStart(style, anchor, _) => {
                    let part = OpenNode::Map { entries: Vec::new(), seen: BTreeSet::new(), slot: Slot::Key };
                    self.open(part, style, anchor, span)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(span.offset + span.length),
                Event::Alias(id) => self.alias(id, span)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Records a fault that does not end parsing.
    fn note(&mut self, fault: SourceError) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    /// The parser's error, or the common mistake that causes it.
    fn syntax(&self, error: &ScanError) -> SourceError {
        let mark = error.marker();
        let offset = mark.byte_offset().unwrap_or_else(|| {
            let before: usize = self.text.split_inclusive('\n').take(mark.line().saturating_sub(1)).map(str::len).sum();
            let rest = self.text.get(before..).unwrap_or_default();
            before + rest.char_indices().nth(mark.col()).map_or(rest.len(), |(at, _)| at)
        });
        let length = self.text.get(offset..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let span = Span::new(offset, length);
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            return too_deep(span);
        }
        let stop = Stop { text: self.text, offset, kind: error.kind(), read: self.read, bracket: self.bracket() };
        if let Some(fault) = stop.short_block_line() {
            return fault;
        }
        if let Some(at) = self.unquoted_template(offset) {
            return unquoted_template(Span::new(at, 2), "{{");
        }
        if let Some(fault) = stop.broken_text() {
            return fault;
        }
        if let Some(comment) = self.cutting_comment(offset) {
            return cut_by_comment(comment);
        }
        // The parser stops one character before the one that it refuses.
        let is_unwanted = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
        let refused = self.text.get(offset..).unwrap_or_default().char_indices().take(2).find(|(_, c)| is_unwanted(*c));
        if let Some((at, c)) = refused {
            let message = format!("the file contains the control character U+{:04X}", u32::from(c));
            let span = Span::new(offset + at, c.len_utf8());
            return SourceError::new(Code::YamlSyntax, span, message)
                .with_hint("in double quotes it can be written as an escape");
        }
        stop.slip().unwrap_or_else(|| SourceError::new(Code::YamlSyntax, span, error.info().replace('`', "'")))
    }

    /// The offset on the line of `offset` where an unquoted value begins with `{{`.
    fn unquoted_template(&self, offset: usize) -> Option<usize> {
        let start = line_start(self.text, offset);
        let line = self.text.get(start..)?.lines().next()?;
        let mut quotes = Quotes::default();
        let mut at = 0;
        loop {
            let next = line.get(at..)?.find("{{")? + at;
            quotes.pass(line.get(at..next)?);
            let lead = line.get(..next)?;
            let value = lead.trim_end_matches([' ', '\t']);
            let begins = value.ends_with(['[', ','])
                || (value.ends_with([':', '-']) && value.len() < lead.len())
                || (value.is_empty() && next > 0);
            if begins && !quotes.open() {
                return Some(start + next);
            }
            // In a row of braces only the first two can begin a value.
            at = next + line.get(next..)?.bytes().take_while(|byte| *byte == b'{').count();
        }
    }

    /// A comment that cuts off a value at the parser's stop: it follows other text, and a letter or digit follows its
    /// `#`. It is on the line of `offset`, or within the flow list or map still open there.
    fn cutting_comment(&self, offset: usize) -> Option<Span> {
        let start = line_start(self.text, self.bracket().unwrap_or(offset));
        let end = offset + self.text.get(offset..)?.lines().next().map_or(0, str::len);
        let mut line_start = start;
        for line in self.text.get(start..end)?.split('\n') {
            let mut quotes = Quotes::default();
            let mut passed = 0;
            for (at, _) in line.match_indices(" #") {
                quotes.pass(line.get(passed..at)?);
                passed = at;
                let is_cut = line.get(at + 2..)?.starts_with(|c: char| c.is_alphanumeric());
                if quotes.open() {
                    continue;
                }
                if is_cut && !line.get(..at)?.trim().is_empty() {
                    return Some(Span::new(line_start + at + 1, line.trim_end().len() - at - 1));
                }
                // What follows is part of this comment.
                break;
            }
            line_start += line.len() + 1;
        }
        None
    }

    /// The offset of the innermost list or map in brackets that is open.
    fn bracket(&self) -> Option<usize> {
        self.stack.iter().rev().find(|frame| frame.flow).map(|frame| frame.span.offset)
    }

    fn tag(&mut self, span: Span) {
        let tag = self.text.get(span.offset..span.offset + span.length).unwrap_or_default();
        let fault =
            SourceError::new(Code::YamlTag, span, format!("`{}` is a YAML tag; tags are not allowed", excerpt(tag)));
        let hint = if tag.starts_with("!!") {
            "leave it out: quotes make a text, and a field's declared type says the rest"
        } else {
            "quote the text if it begins with `!`; in a condition write `not x` for `!x`"
        };
        self.note(fault.with_hint(hint));
    }

    fn scalar(&mut self, value: &str, style: ScalarStyle, anchor: usize, span: Span) -> Result<(), SourceError> {
        if self.wants_key() {
            return self.key(value, style, span);
        }
        self.budget.take(1, value.len(), span)?;
        let kind = match style {
            ScalarStyle::Plain => plain(value).unwrap_or_else(|fault| {
                self.note(fault(span));
                Kind::Int(0)
            }),
            _ => Kind::Str(value.to_owned()),
        };
        self.put_anchored(Node { span, kind }, anchor);
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { part: OpenNode::Map { slot: Slot::Key, .. }, .. }))
    }

    fn key(&mut self, name: &str, style: ScalarStyle, span: Span) -> Result<(), SourceError> {
        if name.len() > MAX_KEY_BYTES {
            return Err(key_too_long(span));
        }
        self.budget.take(0, name.len(), span)?;
        let Some(Frame { part: OpenNode::Map { slot, seen, .. }, .. }) = self.stack.last_mut() else { return Ok(()) };
        let is_plain = style == ScalarStyle::Plain;
        let fault = if is_plain && name == "<<" {
            SourceError::new(Code::MergeKey, span, "`<<` is a merge key; merge keys are not allowed")
                .with_hint("write the entries out, or give the whole value an anchor")
        } else if is_plain && plain(name) == Ok(Kind::Null) {
            SourceError::new(Code::KeyNotText, span, "a key is empty or null").with_hint("quote it if it is a text")
        } else if seen.insert(name.to_owned()) {
            *slot = Slot::Value(Key { span, name: name.to_owned() });
            return Ok(());
        } else {
            duplicate(name, span)
        };
        *slot = Slot::Dropped;
        self.note(fault);
        Ok(())
    }

    fn open(&mut self, part: OpenNode, style: StructureStyle, anchor: usize, span: Span) -> Result<(), SourceError> {
        let is_key = self.wants_key();
        self.budget.take(1, 0, span)?;
        if self.stack.len() >= MAX_DEPTH {
            return Err(too_deep(span));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
        self.stack.push(Frame { span, anchor, flow: style == StructureStyle::Flow, is_key, part });
        Ok(())
    }

    fn close(&mut self, end: usize) {
        let Some(frame) = self.stack.pop() else { return };
        if frame.is_key {
            self.key_of_many(&frame);
            return;
        }
        let braces = self.text.get(frame.span.offset..).is_some_and(|rest| rest.starts_with("{{"));
        let kind = match frame.part {
            // A template was intended; reading it as a text allows finding the other faults of the file.
            OpenNode::Map { .. } if frame.flow && braces => {
                self.note(unquoted_template(Span::new(frame.span.offset, 2), "{{"));
                Kind::Str(self.text.get(frame.span.offset..end).unwrap_or_default().to_owned())
            }
            OpenNode::List(items) => Kind::List(items),
            OpenNode::Map { entries, .. } => Kind::Map(entries),
        };
        self.put_anchored(Node { span: frame.span, kind }, frame.anchor);
    }

    /// Reports a list or a map as a key.
    fn key_of_many(&mut self, frame: &Frame) {
        // `{{ x }}` is a map whose key is a map; the fault is reported when the outer one is closed.
        let outer = self.stack.last().map_or(0, |outer| outer.span.offset);
        if !self.text.get(outer..).is_some_and(|rest| rest.starts_with("{{")) {
            let fault = SourceError::new(Code::KeyNotText, frame.span, "expected a key, found a list or a map")
                .with_hint("quote a text that begins with `[` or `{`");
            self.note(fault);
        }
        if let Some(Frame { part: OpenNode::Map { slot, .. }, .. }) = self.stack.last_mut() {
            *slot = Slot::Dropped;
        }
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), SourceError> {
        self.aliases += 1;
        if self.aliases > MAX_ALIASES {
            return Err(SourceError::new(Code::TooLarge, span, format!("there are more than {MAX_ALIASES} aliases")));
        }
        let Some(Some(node)) = self.anchors.get(&id) else {
            return Err(SourceError::new(Code::YamlSyntax, span, "an alias refers to a value that contains it"));
        };
        if self.wants_key() {
            let Kind::Str(name) = &node.kind else {
                let message = "an alias of something else than a text is a key";
                return Err(SourceError::new(Code::KeyNotText, span, message));
            };
            let name = name.clone();
            return self.key(&name, ScalarStyle::DoubleQuoted, span);
        }
        if self.stack.len() + node.depth() > MAX_DEPTH + 1 {
            return Err(too_deep(span));
        }
        self.budget.take(node.count(), node.scalar_bytes(), span)?;
        self.put(Node { span, kind: node.kind.clone() });
        Ok(())
    }

    fn put_anchored(&mut self, node: Node, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, Some(node.clone()));
        }
        self.put(node);
    }

    /// Adds a finished node to the innermost open list or map.
    fn put(&mut self, node: Node) {
        match self.stack.last_mut().map(|frame| &mut frame.part) {
            None => self.root = Some(node),
            Some(OpenNode::List(items)) => items.push(node),
            Some(OpenNode::Map { entries, slot, .. }) => {
                if let Slot::Value(key) = std::mem::replace(slot, Slot::Key) {
                    entries.push((key, node));
                }
            }
        }
    }
}

pub(super) fn unquoted_template(span: Span, opening: &str) -> SourceError {
    let message = format!("an unquoted value begins with `{opening}`, which YAML reads as a map");
    SourceError::new(Code::UnquotedTemplate, span, message)
        .with_hint("put the whole text in double quotes, or write it as a block after `|`")
}

/// Whether a quoted text is open at a position of a line, judging only by the line.
#[derive(Default)]
struct Quotes {
    double: bool,
    single: bool,
}

impl Quotes {
    fn pass(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                b'"' if !self.single => self.double = !self.double,
                b'\'' if !self.double => self.single = !self.single,
                _ => {}
            }
        }
    }

    fn open(&self) -> bool {
        self.double || self.single
    }
}

/// The value of an unquoted scalar.
fn plain(text: &str) -> Result<Kind, fn(Span) -> SourceError> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Kind::Null),
        "true" => return Ok(Kind::Bool(true)),
        "false" => return Ok(Kind::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Err(not_finite),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Err(not_finite);
    }
    let in_range = |number: Option<i128>| {
        number.filter(|number| number.abs() <= MAX_INTEGER).map(Kind::Int).ok_or(integer_out_of_range as fn(_) -> _)
    };
    let based = |prefix, base| {
        let digits: &str = text.strip_prefix(prefix)?;
        (!digits.is_empty() && digits.chars().all(|c| c.is_digit(base)))
            .then(|| in_range(i128::from_str_radix(digits, base).ok()))
    };
    if let Some(number) = based("0x", 16).or_else(|| based("0o", 8)) {
        return number;
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(Kind::Str(text.to_owned()));
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let leads_with_zero = unsigned.len() > 1 && unsigned.starts_with('0');
        return if leads_with_zero { Ok(Kind::Str(text.to_owned())) } else { in_range(text.parse().ok()) };
    }
    // Behind a digit or a point, Rust and the core schema (YAML 1.2.2 §10.3.2) read the same texts as numbers.
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Kind::Float(number)),
        Ok(_) => Err(not_finite),
        Err(_) => Ok(Kind::Str(text.to_owned())),
    }
}
