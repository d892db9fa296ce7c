//! How the types of a store travel between processes: bytes that are text as text, and values with a canonical form of
//! their own as the text of that form, so that no digit of a number and no level of nesting is lost on the way.

use rondo_protocol::canonical;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Before bytes that are text, and before those that are written in hex.
const TEXT: char = '=';
const HEX: char = '#';

/// Bytes, as a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        bytes::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bytes::deserialize(deserializer).map(Self)
    }
}

/// For fields that are bytes.
pub mod bytes {
    use super::{Deserialize, Deserializer, HEX, Serializer, TEXT};

    /// Writes them.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => format!("{TEXT}{text}"),
            Err(_) => std::iter::once(HEX.to_string()).chain(bytes.iter().map(|byte| format!("{byte:02x}"))).collect(),
        };
        serializer.serialize_str(&text)
    }

    /// Reads them.
    ///
    /// # Errors
    /// When they were not written by [`serialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let mut text = String::deserialize(deserializer)?;
        if text.starts_with(TEXT) {
            text.remove(0);
            return Ok(text.into_bytes());
        }
        let digits = text.strip_prefix(HEX).map(str::as_bytes);
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        digits
            .filter(|digits| digits.len() % 2 == 0)
            .and_then(|digits| {
                let byte = |pair: &[u8]| match pair {
                    [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                    _ => None,
                };
                digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>()
            })
            .ok_or_else(|| serde::de::Error::custom("bytes that nobody wrote"))
    }
}

/// For objects of a commit: kind, digest, canonical bytes.
pub mod objects {
    use rondo_protocol::digest::{Digest, Kind};

    use super::{Bytes, Deserialize, Deserializer, Serialize, Serializer};

    type Object = (Kind, Digest, Vec<u8>);

    /// Writes them.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(objects: &[Object], serializer: S) -> Result<S::Ok, S::Error> {
        let all: Vec<(&str, Digest, Bytes)> =
            objects.iter().map(|(kind, digest, bytes)| (kind.name(), *digest, Bytes(bytes.clone()))).collect();
        all.serialize(serializer)
    }

    /// Reads them.
    ///
    /// # Errors
    /// When they were not written by [`serialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Object>, D::Error> {
        let all = Vec::<(String, Digest, Bytes)>::deserialize(deserializer)?;
        all.into_iter().map(|(kind, digest, bytes)| Ok((super::kind_of(&kind)?, digest, bytes.0))).collect()
    }
}

/// For lists of a commit: the step that opened each, and its bytes.
pub mod lists {
    use super::{Bytes, Deserialize, Deserializer, Serialize, Serializer};

    type List = (u64, Option<Vec<u8>>);

    /// Writes them.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(lists: &[List], serializer: S) -> Result<S::Ok, S::Error> {
        let all: Vec<(u64, Option<Bytes>)> =
            lists.iter().map(|(opened_by, list)| (*opened_by, list.clone().map(Bytes))).collect();
        all.serialize(serializer)
    }

    /// Reads them.
    ///
    /// # Errors
    /// When they were not written by [`serialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<List>, D::Error> {
        let all = Vec::<(u64, Option<Bytes>)>::deserialize(deserializer)?;
        Ok(all.into_iter().map(|(opened_by, list)| (opened_by, list.map(|list| list.0))).collect())
    }
}

/// For what a store says no with.
pub mod fault {
    use rondo_protocol::Digest;
    use rondo_protocol::diagnostic::Code;
    use rondo_protocol::id::ThreadId;

    use super::super::keys::Family;
    use super::super::{Damage, Error};
    use super::{Bytes, Deserialize, Deserializer, Serialize, Serializer};

    /// An error, with texts where the process that has it has names of its own.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Fault {
        Conflict(ThreadId),
        Malformed(String),
        Damaged(Box<Damaged>),
        Poisoned(String),
        Busy(u32),
        Io { path: String, what: String },
        Unsafe { path: String, what: String },
        ReadOnly,
        Format { found: u32, known: u32 },
    }

    #[derive(Serialize, Deserialize)]
    struct Damaged {
        code: String,
        file: Option<String>,
        family: Option<String>,
        key: Option<Bytes>,
        object: Option<Digest>,
        thread: Option<ThreadId>,
        what: String,
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(error: &Error, serializer: S) -> Result<S::Ok, S::Error> {
        let fault = match error.clone() {
            Error::Conflict { thread } => Fault::Conflict(thread),
            Error::Malformed { what } => Fault::Malformed(what),
            Error::Damaged(damage) => {
                let Damage { code, file, family, key, object, thread, what } = *damage;
                let (code, family, key) = (code.to_string(), family.map(str::to_owned), key.map(Bytes));
                Fault::Damaged(Box::new(Damaged { code, file, family, key, object, thread, what }))
            }
            Error::Poisoned { what } => Fault::Poisoned(what),
            Error::Busy { pid } => Fault::Busy(pid),
            Error::Io { path, what } => Fault::Io { path, what },
            Error::Unsafe { path, what } => Fault::Unsafe { path, what },
            Error::ReadOnly => Fault::ReadOnly,
            Error::Format { found, known } => Fault::Format { found, known },
            Error::Version { found, known, .. } => Fault::Format { found: found.into(), known: known.into() },
        };
        fault.serialize(serializer)
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it was not written by [`serialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Error, D::Error> {
        Ok(match Fault::deserialize(deserializer)? {
            Fault::Conflict(thread) => Error::Conflict { thread },
            Fault::Malformed(what) => Error::Malformed { what },
            Fault::Damaged(damaged) => {
                let Damaged { code, file, family, key, object, thread, what } = *damaged;
                let code = Code::find(&code).unwrap_or(Code::StoreDamaged);
                let family =
                    Family::ALL.iter().map(|known| known.name()).find(|known| Some(*known) == family.as_deref());
                Damage { code, file, family, key: key.map(|key| key.0), object, thread, what }.into()
            }
            Fault::Poisoned(what) => Error::Poisoned { what },
            Fault::Busy(pid) => Error::Busy { pid },
            Fault::Io { path, what } => Error::Io { path, what },
            Fault::Unsafe { path, what } => Error::Unsafe { path, what },
            Fault::ReadOnly => Error::ReadOnly,
            Fault::Format { found, known } => Error::Format { found, known },
        })
    }
}

/// For fields that are the kind of an object.
pub mod kind {
    use rondo_protocol::digest::Kind;

    use super::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.name())
    }

    /// Reads it.
    ///
    /// # Errors
    /// When there is no such kind.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        super::kind_of(&String::deserialize(deserializer)?)
    }
}

fn kind_of<E: serde::de::Error>(name: &str) -> Result<rondo_protocol::digest::Kind, E> {
    let found = rondo_protocol::digest::Kind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| E::custom("a kind of objects that there is not"))
}

/// For fields that have a canonical form.
pub mod json {
    use super::{Deserialize, DeserializeOwned, Deserializer, Serialize, Serializer, canonical};

    /// Writes the text of that form.
    ///
    /// # Errors
    /// When there is none.
    pub fn serialize<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = canonical::to_bytes(value).map_err(super::fault_of_form)?;
        let text = String::from_utf8(bytes).map_err(super::fault_of_form)?;
        serializer.serialize_str(&text)
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is not the form of such a value.
    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        canonical::from_slice(text.as_bytes()).map_err(|error| super::fault_of_text(&error))
    }
}

fn fault_of_form<E: serde::ser::Error>(error: impl std::fmt::Display) -> E {
    E::custom(error)
}

fn fault_of_text<E: serde::de::Error>(error: &canonical::Error) -> E {
    E::custom(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [&b""[..], b"{\"a\":\"=\\n\"}", b"#", b"=", &[0xff, 0, 0x10], "ä€".as_bytes()] {
            let written = canonical::to_bytes(&Bytes(bytes.to_vec())).unwrap();
            assert_eq!(canonical::from_slice::<Bytes>(&written).unwrap().0, bytes);
        }
        for bad in ["\"\"", "\"a\"", "\"#a\"", "\"#zz\"", "\"#+1\"", "1"] {
            assert!(canonical::from_slice::<Bytes>(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
