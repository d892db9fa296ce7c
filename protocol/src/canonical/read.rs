//! The reader: strict JSON (RFC 8259) into a [`Value`], integers exact, duplicate keys and lone surrogates refused.

use std::collections::BTreeMap;

use super::{Error, MAX_DEPTH, MAX_INTEGER, MAX_VALUE_DEPTH, Value, plain::plain_length};

/// The value of a whole JSON text that somebody wrote: what enters a thread is read by this.
///
/// # Errors
/// [`Error::Syntax`] with a byte offset, [`Error::DuplicateKey`], [`Error::IntegerRange`], [`Error::NotFinite`] for a
/// number such as `1e400`, [`Error::ValueTooDeep`].
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    read(bytes, false)
}

/// The value of canonical bytes. A float of 2^64 or more is written by ECMAScript with all its digits up to 1e21, so an
/// integer literal in exactly that form is read back as the float it was; [`parse`] refuses it, because whoever writes
/// such a literal by hand would lose digits. A value with all that is stored around it may be [`MAX_DEPTH`] levels deep,
/// as [`to_bytes`](super::to_bytes) writes it.
///
/// # Errors
/// As [`parse`], but [`Error::TooDeep`].
pub fn parse_canonical(bytes: &[u8]) -> Result<Value, Error> {
    read(bytes, true)
}

fn read(bytes: &[u8], canonical: bool) -> Result<Value, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Error::Syntax { at: error.valid_up_to(), what: "the text is not UTF-8" })?;
    let mut reader = Reader { text, at: 0, depth: 0, canonical };
    reader.space();
    let value = reader.value()?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.fault("something follows the value"));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    canonical: bool,
}

impl Reader<'_> {
    fn fault(&self, what: &'static str) -> Error {
        Error::Syntax { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8, what: &'static str) -> Result<(), Error> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.fault(what))
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Error> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.fault("expected a value"))
        }
    }

    fn value(&mut self) -> Result<Value, Error> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::Str),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::list),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.fault("expected a value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Error>) -> Result<Value, Error> {
        self.depth += 1;
        let (most, fault) =
            if self.canonical { (MAX_DEPTH, Error::TooDeep) } else { (MAX_VALUE_DEPTH, Error::ValueTooDeep) };
        if self.depth > most {
            return Err(fault);
        }
        self.at += 1;
        self.space();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, Error> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            self.space();
            items.push(self.value()?);
            self.space();
            if self.peek() != Some(b',') {
                break;
            }
            self.at += 1;
        }
        self.take(b']', "expected , or ]")?;
        Ok(Value::List(items))
    }

    fn object(&mut self) -> Result<Value, Error> {
        let mut members = BTreeMap::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.fault("expected a key in double quotes"));
            }
            let key = self.string()?;
            self.space();
            self.take(b':', "expected : after a key")?;
            self.space();
            let value = self.value()?;
            if members.contains_key(&key) {
                return Err(Error::DuplicateKey(key));
            }
            members.insert(key, value);
            self.space();
            if self.peek() != Some(b',') {
                break;
            }
            self.at += 1;
        }
        self.take(b'}', "expected , or }")?;
        Ok(Value::Object(members))
    }

    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let plain = plain_length(rest);
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

    fn escape(&mut self) -> Result<char, Error> {
        self.at += 1;
        let letter = self.peek().ok_or_else(|| self.fault("a text has no end"))?;
        self.at += 1;
        Ok(match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex4()?;
                let code = if (0xd800..0xdc00).contains(&high) {
                    if self.text.as_bytes().get(self.at..self.at + 2) != Some(b"\\u") {
                        return Err(self.fault("a surrogate stands alone"));
                    }
                    self.at += 2;
                    let low = self.hex4()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(self.fault("a surrogate stands alone"));
                    }
                    0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    high
                };
                char::from_u32(code).ok_or_else(|| self.fault("a surrogate stands alone"))?
            }
            _ => return Err(self.fault("not an escape of JSON")),
        })
    }

    fn hex4(&mut self) -> Result<u32, Error> {
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

    fn digits(&mut self) -> Result<(), Error> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.fault("expected a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, Error> {
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
        let float = |what| literal.parse::<f64>().map_err(|_| self.fault(what));
        if self.at > integer_end {
            return Value::number(float("not a number")?);
        }
        match literal.parse::<i128>() {
            Ok(number) if number.abs() <= MAX_INTEGER => Ok(Value::Int(number)),
            _ if self.canonical => {
                let number = float("not a number")?;
                let is_own_form = ryu_js::Buffer::new().format(number) == literal;
                if is_own_form { Value::number(number) } else { Err(Error::IntegerRange) }
            }
            _ => Err(Error::IntegerRange),
        }
    }
}
