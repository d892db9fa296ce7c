//! The writer: a serde serializer whose output is canonical.
//!
//! Members are written as they arrive and sorted at the end of their object, which costs nothing if they arrived in
//! order. The hashed structs of this crate declare their fields sorted for that reason. Keys and objects require
//! allocations only when members have to be moved.

use std::borrow::Cow;
use std::cell::Cell;

use serde::ser::{self, Serialize, Serializer as _};

use super::{Error, MAX_DEPTH, integral};
use crate::scan::plain_length;

/// The canonical bytes of `object`.
///
/// # Errors
/// When it contains a number that is not finite or an integer out of range, a map key that is not a text, a duplicate
/// key, or more than [`MAX_DEPTH`] levels.
pub fn to_bytes<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>, Error> {
    written(object, None)
}

/// Appends the canonical bytes of a text, which always exist.
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    let mut writer = Writer { out: std::mem::take(out), depth: 0, members: Vec::new(), keep: None };
    writer.text(text);
    *out = writer.out;
}

/// The canonical bytes of `object` with only those members for which `keep` returns true, given the key and the
/// canonical bytes of the value. Nested members are all kept.
pub fn to_bytes_of<T: Serialize + ?Sized>(object: &T, keep: &Keep<'_>) -> Result<Vec<u8>, Error> {
    written(object, Some(keep))
}

thread_local! {
    /// The room of the last writer of this thread, so that an object takes one allocation, of its size.
    static ROOM: Cell<(Vec<u8>, Vec<Member>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// What a thread keeps at most, of each.
const ROOM_LENGTH: usize = 64 << 10;

fn written<T: Serialize + ?Sized>(object: &T, keep: Option<&Keep<'_>>) -> Result<Vec<u8>, Error> {
    let (mut out, mut members) = ROOM.take();
    out.clear();
    members.clear();
    let mut writer = Writer { out, depth: 0, members, keep };
    let done = object.serialize(&mut writer);
    let Writer { out, members, .. } = writer;
    if out.capacity() > ROOM_LENGTH || members.capacity() > ROOM_LENGTH {
        return done.map(|()| out);
    }
    let bytes = done.map(|()| out.as_slice().to_vec());
    ROOM.set((out, members));
    bytes
}

/// Whether to write a member, by its written key without quotes and the canonical bytes of its value.
pub type Keep<'a> = dyn Fn(&[u8], &[u8]) -> bool + 'a;

struct Writer<'k> {
    out: Vec<u8>,
    depth: usize,
    /// The members of the open objects, those of the innermost last.
    members: Vec<Member>,
    keep: Option<&'k Keep<'k>>,
}

impl Writer<'_> {
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
        let Ok(digits) = u64::try_from(number.unsigned_abs()) else { return Err(Error::IntegerRange) };
        if number < 0 {
            self.out.push(b'-');
        }
        self.serialize_u64(digits)
    }

    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let mut rest = text.as_bytes();
        while let Some((run, escaped)) = rest.split_at_checked(plain_length(rest)) {
            self.out.extend_from_slice(run);
            let Some((byte, behind)) = escaped.split_first() else { break };
            rest = behind;
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
        self.out.push(b'"');
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, number: $type) -> Result<(), Error> {
            self.integer(number.into())
        })*
    };
}

impl<'a, 'k> ser::Serializer for &'a mut Writer<'k> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a, 'k>;
    type SerializeTuple = List<'a, 'k>;
    type SerializeTupleStruct = List<'a, 'k>;
    type SerializeTupleVariant = List<'a, 'k>;
    type SerializeMap = Object<'a, 'k>;
    type SerializeStruct = Object<'a, 'k>;
    type SerializeStructVariant = Object<'a, 'k>;

    fn serialize_bool(self, truth: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if truth { b"true" } else { b"false" });
        Ok(())
    }

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32
    }

    fn serialize_u64(self, number: u64) -> Result<(), Error> {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        Ok(())
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

    fn serialize_seq(self, _length: Option<usize>) -> Result<List<'a, 'k>, Error> {
        self.enter(b'[')?;
        Ok(List { writer: self, first: true, wrapped: false })
    }

    fn serialize_tuple(self, length: usize) -> Result<List<'a, 'k>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<List<'a, 'k>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'a, 'k>, Error> {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        self.enter(b'[')?;
        Ok(List { writer: self, first: true, wrapped: true })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Object<'a, 'k>, Error> {
        Object::open(self, false)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Object<'a, 'k>, Error> {
        Object::open(self, false)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Object<'a, 'k>, Error> {
        self.enter(b'{')?;
        self.text(variant);
        self.out.push(b':');
        Object::open(self, true)
    }
}

struct List<'a, 'k> {
    writer: &'a mut Writer<'k>,
    first: bool,
    wrapped: bool,
}

impl List<'_, '_> {
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
        impl ser::$trait for List<'_, '_> {
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

/// The position of one member in the output: of `"key":value`, and of the part after the colon.
#[derive(Debug, Clone, Copy)]
struct Member {
    from: usize,
    value: usize,
    to: usize,
}

impl Member {
    /// The key in `out`, as written between its quotes.
    fn key(self, out: &[u8]) -> &[u8] {
        out.get(self.from + 1..self.value.saturating_sub(2)).unwrap_or_default()
    }

    /// The bytes of the key's text, by which keys are sorted.
    fn text(self, out: &[u8]) -> Cow<'_, [u8]> {
        let written = self.key(out);
        if !written.contains(&b'\\') {
            return Cow::Borrowed(written);
        }
        // The output of this writer always parses.
        let text = super::parse(&[b"\"", written, b"\""].concat()).ok();
        Cow::Owned(text.as_ref().and_then(super::Value::as_str).unwrap_or_default().as_bytes().to_vec())
    }
}

struct Object<'a, 'k> {
    writer: &'a mut Writer<'k>,
    /// The start of its first member in the output, and in the list of members.
    start: usize,
    first: usize,
    /// Whether the keys so far arrived in order.
    sorted: bool,
    /// The name of the last field of a struct.
    last: &'static str,
    wrapped: bool,
}

impl<'a, 'k> Object<'a, 'k> {
    fn open(writer: &'a mut Writer<'k>, wrapped: bool) -> Result<Self, Error> {
        writer.enter(b'{')?;
        let (start, first) = (writer.out.len(), writer.members.len());
        Ok(Self { writer, start, first, sorted: true, last: "", wrapped })
    }

    /// Records the key that was written from `from` on.
    fn key(&mut self, from: usize) {
        let writer = &mut *self.writer;
        writer.out.push(b':');
        let end = writer.out.len();
        writer.members.push(Member { from, value: end, to: end });
    }

    /// Writes the name of a field. Names of fields have nothing to escape.
    fn name(&mut self, name: &'static str) {
        debug_assert_eq!(plain_length(name.as_bytes()), name.len(), "the name of a field");
        let writer = &mut *self.writer;
        let from = writer.out.len();
        writer.out.reserve(name.len() + 3);
        writer.out.push(b'"');
        writer.out.extend_from_slice(name.as_bytes());
        writer.out.push(b'"');
        self.sorted &= self.last < name || writer.members.len() == self.first;
        self.last = name;
        self.key(from);
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)?;
        let writer = &mut *self.writer;
        let end = writer.out.len();
        if let Some(member) = writer.members.last_mut() {
            member.to = end;
            let member = *member;
            if writer.depth == 1
                && let Some(keep) = writer.keep
                && !keep(member.key(&writer.out), writer.out.get(member.value..).unwrap_or_default())
            {
                writer.members.pop();
                writer.out.truncate(member.from);
                return Ok(());
            }
        }
        writer.out.push(b',');
        Ok(())
    }

    fn close(self) -> Result<(), Error> {
        let Self { writer, start, first, sorted, wrapped, .. } = self;
        if !sorted {
            let unsorted = writer.out.split_off(start);
            let members = writer.members.get_mut(first..).unwrap_or_default();
            for member in members.iter_mut() {
                let Member { from, value, to } = *member;
                *member = Member { from: from - start, value: value - start, to: to - start };
            }
            members.sort_by(|a, b| a.text(&unsorted).cmp(&b.text(&unsorted)));
            for member in members.iter() {
                writer.out.extend_from_slice(unsorted.get(member.from..member.to).unwrap_or_default());
                writer.out.push(b',');
            }
            if let Some(twice) = members.windows(2).find_map(|pair| match pair {
                [a, b] if a.key(&unsorted) == b.key(&unsorted) => Some(a.text(&unsorted)),
                _ => None,
            }) {
                return Err(Error::DuplicateKey(String::from_utf8_lossy(&twice).into_owned()));
            }
        }
        if writer.members.len() > first {
            writer.out.pop();
        }
        writer.members.truncate(first);
        writer.leave(b'}');
        if wrapped {
            writer.leave(b'}');
        }
        Ok(())
    }
}

impl ser::SerializeMap for Object<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let from = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        let written = self.writer.out.get(from..).unwrap_or_default();
        if written.first() != Some(&b'"') {
            return Err(Error::KeyNotText);
        }
        let before = self.writer.members.get(self.first..).and_then(<[Member]>::last).copied();
        self.key(from);
        let (out, members) = (&self.writer.out, &self.writer.members);
        self.sorted &= before.zip(members.last()).is_none_or(|(before, member)| before.text(out) < member.text(out));
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
        impl ser::$trait for Object<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.name(key);
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

#[cfg(test)]
mod tests;
