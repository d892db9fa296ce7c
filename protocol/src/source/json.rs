//! The JSON reader: strict RFC 8259 with spans. Integers keep every digit; comments, trailing commas, duplicate keys,
//! lone surrogates and numbers that are not finite are faults.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{
    Budget, Key, Kind, MAX_DEPTH, MAX_KEY_BYTES, Node, Parsed, SourceError, duplicate, integer_out_of_range,
    key_too_long, not_finite, too_deep,
};
use crate::canonical::MAX_INTEGER;
use crate::diagnostic::{Code, Span};
use crate::scan::{NO_ESCAPE, Scanner, Unfit};

/// Parses `text`. A syntax error ends parsing; duplicate keys and numbers out of range do not.
pub(super) fn read(text: &str) -> Parsed {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut reader =
        Reader { scan: Scanner { text, at: start }, depth: 0, budget: Budget::default(), faults: Vec::new() };
    reader.scan.blanks();
    if reader.scan.peek().is_none() {
        let fault = SourceError::new(Code::EmptyFile, Span::new(start, 0), "the file is empty");
        return Parsed { root: None, faults: vec![fault] };
    }
    let root = reader.value().and_then(|root| {
        reader.scan.blanks();
        if reader.scan.at < text.len() { Err(reader.fault("something follows the value")) } else { Ok(root) }
    });
    let mut faults = reader.faults;
    let root = root.map_err(|fault| faults.push(fault)).ok();
    faults.sort_by_key(|fault| fault.span);
    Parsed { root, faults }
}

struct Reader<'a> {
    scan: Scanner<'a>,
    depth: usize,
    budget: Budget,
    faults: Vec<SourceError>,
}

impl Reader<'_> {
    fn fault(&self, what: &str) -> SourceError {
        let what = if matches!(self.scan.peek(), Some(b'/' | b'#')) { "JSON has no comments" } else { what };
        let length = self.scan.text.get(self.scan.at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        SourceError::new(Code::JsonSyntax, Span::new(self.scan.at, length), what)
    }

    /// Records a fault that does not end parsing.
    fn note(&mut self, fault: SourceError) {
        if self.faults.len() < super::MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    fn span_from(&self, start: usize) -> Span {
        Span::new(start, self.scan.at - start)
    }

    fn token<T>(&self, token: Result<T, Unfit>) -> Result<T, SourceError> {
        token.map_err(|Unfit { from, at, what }| {
            if from == at {
                return self.fault(what);
            }
            let what = if what == NO_ESCAPE { "JSON has no such escape" } else { what };
            SourceError::new(Code::JsonSyntax, Span::new(from, at - from), what)
        })
    }

    fn string(&mut self) -> Result<String, SourceError> {
        let text = self.scan.string();
        self.token(text).map(Cow::into_owned)
    }

    fn value(&mut self) -> Result<Node, SourceError> {
        let start = self.scan.at;
        self.budget.take(1, 0, Span::new(start, 0))?;
        let kind = match self.scan.peek() {
            Some(b'"') => {
                let text = self.string()?;
                self.budget.take(0, text.len(), self.span_from(start))?;
                Kind::Str(text)
            }
            Some(b'{') => return self.nested(Self::map),
            Some(b'[') => return self.nested(Self::list),
            Some(b't') => self.word("true", Kind::Bool(true))?,
            Some(b'f') => self.word("false", Kind::Bool(false))?,
            Some(b'n') => self.word("null", Kind::Null)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'\'') => return Err(self.fault("JSON writes texts in double quotes")),
            None => return Err(self.fault("the file ends where a value is expected")),
            _ => return Err(self.fault("expected a value")),
        };
        Ok(Node { span: self.span_from(start), kind })
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<Kind, SourceError> {
        let word = self.scan.word(word);
        self.token(word).map(|()| kind)
    }

    /// A list or a map; its span is its opening bracket, as for a flow map in YAML.
    fn nested(&mut self, read: fn(&mut Self) -> Result<Kind, SourceError>) -> Result<Node, SourceError> {
        let span = Span::new(self.scan.at, 1);
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(span));
        }
        self.scan.at += 1;
        self.scan.blanks();
        let kind = read(self)?;
        self.depth -= 1;
        Ok(Node { span, kind })
    }

    fn list(&mut self) -> Result<Kind, SourceError> {
        let mut items = Vec::new();
        if self.scan.take(b']') {
            return Ok(Kind::List(items));
        }
        loop {
            self.scan.blanks();
            if self.scan.peek() == Some(b']') {
                return Err(self.fault("a trailing comma before ]"));
            }
            items.push(self.value()?);
            if !self.another(b']', "expected , or ]")? {
                return Ok(Kind::List(items));
            }
        }
    }

    fn map(&mut self) -> Result<Kind, SourceError> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut seen = BTreeSet::new();
        if self.scan.take(b'}') {
            return Ok(Kind::Map(entries));
        }
        loop {
            self.scan.blanks();
            match self.scan.peek() {
                Some(b'"') => {}
                Some(b'}') => return Err(self.fault("a trailing comma before }")),
                _ => return Err(self.fault("expected a key in double quotes")),
            }
            let start = self.scan.at;
            let name = self.string()?;
            let span = self.span_from(start);
            if name.len() > MAX_KEY_BYTES {
                return Err(key_too_long(span));
            }
            self.budget.take(0, name.len(), span)?;
            self.scan.blanks();
            if !self.scan.take(b':') {
                return Err(self.fault("expected : after a key"));
            }
            self.scan.blanks();
            let node = self.value()?;
            if seen.insert(name.clone()) {
                entries.push((Key { span, name }, node));
            } else {
                self.note(duplicate(&name, span));
            }
            if !self.another(b'}', "expected , or }")? {
                return Ok(Kind::Map(entries));
            }
        }
    }

    /// Whether a comma follows, instead of the end.
    fn another(&mut self, end: u8, expected: &str) -> Result<bool, SourceError> {
        self.scan.blanks();
        if self.scan.take(b',') {
            return Ok(true);
        }
        if self.scan.take(end) {
            return Ok(false);
        }
        Err(self.fault(if self.scan.peek().is_some() { expected } else { "the file ends within a list or map" }))
    }

    fn number(&mut self) -> Result<Kind, SourceError> {
        let start = self.scan.at;
        let number = self.scan.number();
        let (literal, is_integer) = self.token(number)?;
        let span = self.span_from(start);
        let in_range = literal.parse::<i128>().ok().filter(|number| number.abs() <= MAX_INTEGER);
        let finite = literal.parse::<f64>().ok().filter(|number| number.is_finite());
        let (kind, fault) = if is_integer {
            (in_range.map(Kind::Int), integer_out_of_range(span))
        } else {
            (finite.map(Kind::Float), not_finite(span))
        };
        Ok(kind.unwrap_or_else(|| {
            self.note(fault);
            Kind::Int(0)
        }))
    }
}
