//! The writer: a serde serializer whose output is canonical.
//!
//! Members are written as they come and put into order at the end of their object, which costs nothing when they
//! came in order. The hashed structs of this crate declare their fields sorted for that reason.

use serde::ser::{self, Serialize};

use super::{Error, MAX_DEPTH, MAX_INTEGER, integral};

/// The canonical bytes of `object`.
///
/// # Errors
/// When it holds a number that is not finite or an integer out of range, a map key that is not a text, the same key
/// twice, or more than [`MAX_DEPTH`] levels.
pub fn to_bytes<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>, Error> {
    let mut writer = Writer { out: Vec::with_capacity(256), depth: 0 };
    object.serialize(&mut writer)?;
    Ok(writer.out)
}

/// Appends the canonical bytes of a text, which always exist.
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    let mut writer = Writer { out: std::mem::take(out), depth: 0 };
    writer.text(text);
    *out = writer.out;
}

struct Writer {
    out: Vec<u8>,
    depth: usize,
}

impl Writer {
    fn enter(&mut self, open: u8) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        self.out.push(open);
        Ok(())
    }

    fn leave(&mut self, close: u8) {
        self.depth -= 1;
        self.out.push(close);
    }

    fn integer(&mut self, number: i128) -> Result<(), Error> {
        if number.abs() > MAX_INTEGER {
            return Err(Error::IntegerRange);
        }
        self.out.extend_from_slice(number.to_string().as_bytes());
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let bytes = text.as_bytes();
        let mut written = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
                continue;
            }
            self.out.extend_from_slice(bytes.get(written..at).unwrap_or_default());
            written = at + 1;
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                control => self.out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
            }
        }
        self.out.extend_from_slice(bytes.get(written..).unwrap_or_default());
        self.out.push(b'"');
    }
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Object<'a>;
    type SerializeStruct = Object<'a>;
    type SerializeStructVariant = Object<'a>;

    fn serialize_bool(self, truth: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if truth { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, number: i8) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_i16(self, number: i16) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_i32(self, number: i32) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_i64(self, number: i64) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_i128(self, number: i128) -> Result<(), Error> {
        self.integer(number)
    }

    fn serialize_u8(self, number: u8) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_u16(self, number: u16) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_u32(self, number: u32) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_u64(self, number: u64) -> Result<(), Error> {
        self.integer(i128::from(number))
    }

    fn serialize_u128(self, number: u128) -> Result<(), Error> {
        self.integer(i128::try_from(number).map_err(|_| Error::IntegerRange)?)
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        self.serialize_f64(f64::from(number))
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        if !number.is_finite() {
            return Err(Error::NotFinite);
        }
        if let Some(integer) = integral(number) {
            return self.integer(integer);
        }
        self.out.extend_from_slice(ryu_js::Buffer::new().format_finite(number).as_bytes());
        Ok(())
    }

    fn serialize_char(self, letter: char) -> Result<(), Error> {
        self.text(letter.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        self.text(text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        bytes.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.text(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        value.serialize(&mut *self)?;
        self.leave(b'}');
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<List<'a>, Error> {
        self.enter(b'[')?;
        Ok(List { writer: self, first: true, wrapped: false })
    }

    fn serialize_tuple(self, length: usize) -> Result<List<'a>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<List<'a>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'a>, Error> {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        self.enter(b'[')?;
        Ok(List { writer: self, first: true, wrapped: true })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Object<'a>, Error> {
        Object::open(self, length.unwrap_or(0), false)
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Object<'a>, Error> {
        Object::open(self, length, false)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Object<'a>, Error> {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        Object::open(self, length, true)
    }
}

struct List<'a> {
    writer: &'a mut Writer,
    first: bool,
    wrapped: bool,
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(b',');
        }
        value.serialize(&mut *self.writer)
    }

    fn close(self) {
        self.writer.leave(b']');
        if self.wrapped {
            self.writer.leave(b'}');
        }
    }
}

macro_rules! list {
    ($trait:ident, $method:ident) => {
        impl ser::$trait for List<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        }
    };
}

list!(SerializeSeq, serialize_element);
list!(SerializeTuple, serialize_element);
list!(SerializeTupleStruct, serialize_field);
list!(SerializeTupleVariant, serialize_field);

/// Where one member stands in the output: the bytes of its key without quotes when they need no escape, and the
/// whole `"key":value`.
struct Member {
    key: String,
    from: usize,
    to: usize,
}

struct Object<'a> {
    writer: &'a mut Writer,
    start: usize,
    members: Vec<Member>,
    wrapped: bool,
}

impl<'a> Object<'a> {
    fn open(writer: &'a mut Writer, length: usize, wrapped: bool) -> Result<Self, Error> {
        writer.enter(b'{')?;
        let start = writer.out.len();
        Ok(Self { writer, start, members: Vec::with_capacity(length.min(64)), wrapped })
    }

    fn key(&mut self, key: String) {
        let from = self.writer.out.len();
        self.writer.text(&key);
        self.writer.out.push(b':');
        self.members.push(Member { key, from, to: from });
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)?;
        let end = self.writer.out.len();
        if let Some(member) = self.members.last_mut() {
            member.to = end;
        }
        self.writer.out.push(b',');
        Ok(())
    }

    fn close(mut self) -> Result<(), Error> {
        if !self.members.is_sorted_by(|a, b| a.key < b.key) {
            let unsorted = self.writer.out.split_off(self.start);
            self.members.sort_by(|a, b| a.key.cmp(&b.key));
            for member in &self.members {
                let bytes = unsorted.get(member.from - self.start..member.to - self.start).unwrap_or_default();
                self.writer.out.extend_from_slice(bytes);
                self.writer.out.push(b',');
            }
            if let Some(twice) = self.members.windows(2).find_map(|pair| match pair {
                [a, b] if a.key == b.key => Some(a.key.clone()),
                _ => None,
            }) {
                return Err(Error::DuplicateKey(twice));
            }
        }
        if !self.members.is_empty() {
            self.writer.out.pop();
        }
        self.writer.leave(b'}');
        if self.wrapped {
            self.writer.leave(b'}');
        }
        Ok(())
    }
}

impl ser::SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let mut writer = Writer { out: Vec::new(), depth: 0 };
        key.serialize(&mut writer)?;
        if writer.out.first() != Some(&b'"') {
            return Err(Error::KeyNotText);
        }
        let text = super::parse(&writer.out)?;
        self.key(text.as_str().unwrap_or_default().to_owned());
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

macro_rules! object {
    ($trait:ident) => {
        impl ser::$trait for Object<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.key(key.to_owned());
                self.value(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    };
}

object!(SerializeStruct);
object!(SerializeStructVariant);

impl Serialize for super::Value {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Int(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => serializer.serialize_u64(number),
                (_, Ok(number)) => serializer.serialize_i64(number),
                _ => serializer.serialize_i128(*number),
            },
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Str(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(members) => serializer.collect_map(members),
        }
    }
}

impl ser::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Shape(message.to_string())
    }
}
