//! The reader: parses strict JSON (RFC 8259) into a [`Value`]; integers are exact, duplicate keys and lone surrogates
//! are refused.

use std::collections::BTreeMap;

use super::{Error, MAX_DEPTH, MAX_INTEGER, MAX_VALUE_DEPTH, Value};
use crate::scan::{Scanner, Unfit};

/// Parses a JSON text from outside: everything that enters a thread is read by this function.
///
/// # Errors
/// [`Error::Syntax`] with a byte offset, [`Error::DuplicateKey`], [`Error::IntegerRange`], [`Error::NotFinite`] for a
/// number such as `1e400`, [`Error::ValueTooDeep`].
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    read(bytes, false)
}

/// Parses canonical bytes. ECMAScript writes a float from 2^64 up to 1e21 with all its digits, so an integer literal in
/// exactly that form is read back as the original float; [`parse`] refuses it, because such a literal written by hand
/// would lose digits. A value with everything stored around it may be [`MAX_DEPTH`] levels deep, as
/// [`to_bytes`](super::to_bytes) writes it.
///
/// # Errors
/// As [`parse`], but [`Error::TooDeep`].
pub fn parse_canonical(bytes: &[u8]) -> Result<Value, Error> {
    read(bytes, true)
}

fn read(bytes: &[u8], canonical: bool) -> Result<Value, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Error::Syntax { at: error.valid_up_to(), what: "the text is not UTF-8" })?;
    let mut reader = Reader { scan: Scanner { text, at: 0 }, depth: 0, canonical };
    reader.scan.blanks();
    let value = reader.value()?;
    reader.scan.blanks();
    if reader.scan.at < text.len() {
        return Err(reader.fault("something follows the value"));
    }
    Ok(value)
}

impl From<Unfit> for Error {
    fn from(Unfit { at, what, .. }: Unfit) -> Self {
        Self::Syntax { at, what }
    }
}

struct Reader<'a> {
    scan: Scanner<'a>,
    depth: usize,
    canonical: bool,
}

impl Reader<'_> {
    fn fault(&self, what: &'static str) -> Error {
        self.scan.unfit(what).into()
    }

    fn take(&mut self, wanted: u8, what: &'static str) -> Result<(), Error> {
        if self.scan.take(wanted) { Ok(()) } else { Err(self.fault(what)) }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Error> {
        self.scan.word(word)?;
        Ok(value)
    }

    fn value(&mut self) -> Result<Value, Error> {
        match self.scan.peek() {
            Some(b'"') => Ok(Value::Str(self.scan.string()?.into_owned())),
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
        self.scan.at += 1;
        self.scan.blanks();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, Error> {
        let mut items = Vec::new();
        if self.scan.take(b']') {
            return Ok(Value::List(items));
        }
        loop {
            self.scan.blanks();
            items.push(self.value()?);
            self.scan.blanks();
            if !self.scan.take(b',') {
                break;
            }
        }
        self.take(b']', "expected , or ]")?;
        Ok(Value::List(items))
    }

    fn object(&mut self) -> Result<Value, Error> {
        let mut members = BTreeMap::new();
        if self.scan.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.scan.blanks();
            if self.scan.peek() != Some(b'"') {
                return Err(self.fault("expected a key in double quotes"));
            }
            let key = self.scan.string()?.into_owned();
            self.scan.blanks();
            self.take(b':', "expected : after a key")?;
            self.scan.blanks();
            let value = self.value()?;
            if members.contains_key(&key) {
                return Err(Error::DuplicateKey(key));
            }
            members.insert(key, value);
            self.scan.blanks();
            if !self.scan.take(b',') {
                break;
            }
        }
        self.take(b'}', "expected , or }")?;
        Ok(Value::Object(members))
    }

    fn number(&mut self) -> Result<Value, Error> {
        let (literal, is_integer) = self.scan.number()?;
        let float = || literal.parse::<f64>().map_err(|_| self.fault("not a number"));
        if !is_integer {
            return Value::number(float()?);
        }
        match literal.parse::<i128>() {
            Ok(number) if number.abs() <= MAX_INTEGER => Ok(Value::Int(number)),
            _ if self.canonical => {
                let number = float()?;
                let is_own_form = ryu_js::Buffer::new().format(number) == literal;
                if is_own_form { Value::number(number) } else { Err(Error::IntegerRange) }
            }
            _ => Err(Error::IntegerRange),
        }
    }
}
