//! The JSON reader: strict RFC 8259 with places. Integers keep every digit; comments, trailing commas, duplicate keys,
//! lone surrogates and numbers that are not finite are faults.

use std::collections::BTreeSet;

use super::{
    Budget, Fault, Key, Kind, MAX_DEPTH, MAX_KEY_BYTES, Node, Reading, duplicate, integer_out_of_range, key_too_long,
    not_finite, too_deep,
};
use crate::canonical::MAX_INTEGER;
use crate::diagnostic::{Code, Span};

/// The tree of `text`. A fault of form ends the reading; duplicate keys and numbers out of range do not.
pub(super) fn read(text: &str) -> Reading {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut reader = Reader { text, at: start, depth: 0, budget: Budget::new(), faults: Vec::new() };
    reader.space();
    if reader.peek().is_none() {
        let fault = Fault::new(Code::EmptyFile, Span::new(start, 0), "the file is empty");
        return Reading { root: None, faults: vec![fault] };
    }
    let root = reader.value().and_then(|root| {
        reader.space();
        if reader.at < text.len() { Err(reader.fault("something follows the value")) } else { Ok(root) }
    });
    let mut faults = reader.faults;
    match root {
        Ok(root) => {
            faults.sort_by_key(|fault| fault.span);
            Reading { root: Some(root), faults }
        }
        Err(fault) => {
            faults.push(fault);
            faults.sort_by_key(|fault| fault.span);
            Reading { root: None, faults }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    budget: Budget,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn fault(&self, what: &str) -> Fault {
        let what = if matches!(self.peek(), Some(b'/' | b'#')) { "JSON has no comments" } else { what };
        let length = self.text.get(self.at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        Fault::new(Code::JsonSyntax, Span::new(self.at, length), what)
    }

    /// Keeps a fault that does not end the reading.
    fn note(&mut self, fault: Fault) {
        if self.faults.len() < super::MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    fn span_from(&self, start: usize) -> Span {
        Span::new(start, self.at - start)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Node, Fault> {
        let start = self.at;
        self.budget.take(1, 0, Span::new(start, 0))?;
        let kind = match self.peek() {
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
            None => return Err(self.fault("the file ends where a value should stand")),
            _ => return Err(self.fault("expected a value")),
        };
        Ok(Node { span: self.span_from(start), kind })
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<Kind, Fault> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            Ok(kind)
        } else {
            Err(self.fault("expected a value"))
        }
    }

    /// A list or a map; like a flow map in YAML, it is found at its opening bracket.
    fn nested(&mut self, read: fn(&mut Self) -> Result<Kind, Fault>) -> Result<Node, Fault> {
        let span = Span::new(self.at, 1);
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(span));
        }
        self.at += 1;
        self.space();
        let kind = read(self)?;
        self.depth -= 1;
        Ok(Node { span, kind })
    }

    fn list(&mut self) -> Result<Kind, Fault> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::List(items));
        }
        loop {
            self.space();
            if self.peek() == Some(b']') {
                return Err(self.fault("a comma stands before ]"));
            }
            items.push(self.value()?);
            if !self.another(b']', "expected , or ]")? {
                return Ok(Kind::List(items));
            }
        }
    }

    fn map(&mut self) -> Result<Kind, Fault> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut seen = BTreeSet::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Map(entries));
        }
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => {}
                Some(b'}') => return Err(self.fault("a comma stands before }")),
                _ => return Err(self.fault("expected a key in double quotes")),
            }
            let start = self.at;
            let name = self.string()?;
            let span = self.span_from(start);
            if name.len() > MAX_KEY_BYTES {
                return Err(key_too_long(span));
            }
            self.budget.take(0, name.len(), span)?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.fault("expected : after a key"));
            }
            self.at += 1;
            self.space();
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

    /// Whether a comma and not the end follows.
    fn another(&mut self, end: u8, expected: &str) -> Result<bool, Fault> {
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            None => Err(self.fault("the file ends within a list or map")),
            _ => Err(self.fault(expected)),
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(rest.len());
            text.push_str(self.text.get(self.at..self.at + plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.fault("a control character stands unescaped in a text")),
                None => return Err(self.fault("a text has no end")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        self.at += 1;
        let letter = self.peek().ok_or_else(|| self.fault("a text has no end"))?;
        let plain = match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(Fault::new(Code::JsonSyntax, Span::new(self.at, 1), "JSON has no such escape")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode_escape(&mut self) -> Result<char, Fault> {
        let start = self.at - 1;
        let alone = |reader: &Self| Fault::new(Code::JsonSyntax, reader.span_from(start), "a surrogate stands alone");
        self.at += 1;
        let high = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&high) {
            if self.text.as_bytes().get(self.at..self.at + 2) != Some(b"\\u") {
                return Err(alone(self));
            }
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(alone(self));
            }
            0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).ok_or_else(|| alone(self))
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or_default();
        let code = digits.iter().try_fold(0_u32, |code, digit| char::from(*digit).to_digit(16).map(|d| code << 4 | d));
        match code {
            Some(code) if digits.len() == 4 => {
                self.at += 4;
                Ok(code)
            }
            _ => Err(self.fault("\\u wants four hex digits")),
        }
    }

    fn digits(&mut self) -> Result<(), Fault> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.fault("expected a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Kind, Fault> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.fault("a number does not start with 0"));
            }
        } else {
            self.digits()?;
        }
        let integer_end = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let literal = self.text.get(start..self.at).unwrap_or_default();
        let span = self.span_from(start);
        let (kind, fault) = if self.at > integer_end {
            match literal.parse::<f64>() {
                Ok(number) if number.is_finite() => (Kind::Float(number), None),
                _ => (Kind::Int(0), Some(not_finite(span))),
            }
        } else {
            match literal.parse::<i128>() {
                Ok(number) if number.abs() <= MAX_INTEGER => (Kind::Int(number), None),
                _ => (Kind::Int(0), Some(integer_out_of_range(span))),
            }
        };
        if let Some(fault) = fault {
            self.note(fault);
        }
        Ok(kind)
    }
}
