//! Names and identifiers: validated once, cheap to clone, ordered by their bytes.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}: {rule}")]
pub struct InvalidName {
    /// The text, cut to 80 characters.
    pub text: String,
    /// The expected kind, such as `role name`.
    pub kind: &'static str,
    pub rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates a name if `text` follows the rule of this kind.
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok(Self(Arc::from(text)))
                } else {
                    Err(InvalidName { text: text.chars().take(80).collect(), kind: $kind, rule: $rule })
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        json_text!($name);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(&text).map_err(de::Error::custom)
            }
        }
    };
}

fn is_lower_name(text: &str, also: char) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == also)
}

pub(crate) fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_ulid(text: &str) -> bool {
    text.len() == 26
        && text.starts_with(|c: char| matches!(c, '0'..='7'))
        && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'z') && !matches!(b, b'i' | b'l' | b'o' | b'u'))
}

/// Crockford's base 32, in lower case.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id made of `unix_ms` (48 bits) and 80 random bits.
fn ulid(unix_ms: u64, random: u128) -> String {
    let bits = (u128::from(unix_ms) & ((1 << 48) - 1)) << 80 | (random & ((1 << 80) - 1));
    let digits = (0..26).rev().map(|group| usize::try_from((bits >> (group * 5)) & 31).unwrap_or(0));
    digits.map(|index| char::from(ALPHABET.get(index).copied().unwrap_or(b'0'))).collect()
}

fn is_lane_path(text: &str) -> bool {
    text.is_empty()
        || text.split('/').all(|part| {
            part.strip_suffix(']').and_then(|part| part.split_once('[')).is_some_and(|(role, index)| {
                is_lower_name(role, '_')
                    && index.chars().all(|c| c.is_ascii_digit())
                    && index.parse::<u32>().is_ok()
                    && (index == "0" || !index.starts_with('0'))
            })
        })
}

name! {
    /// The name of a role: `[a-z][a-z0-9_]*`. The reader of workflow files refuses reserved names.
    RoleName, "role name", "it starts with a-z and continues with a-z, 0-9 and _", |t| is_lower_name(t, '_')
}
name! {
    /// The word by which a role's answer chooses its edge: `[a-z][a-z0-9_-]*`.
    Status, "status", "it starts with a-z and continues with a-z, 0-9, _ and -", |t| is_lower_name(t, '-')
}
name! {
    /// The name of an input or of a field of an output: an identifier.
    FieldName, "field name", "it starts with a letter or _ and continues with letters, digits and _", is_identifier
}
name! {
    /// One branch or item of a fan-out: `role[index]`, nested `a[0]/b[1]`; the trunk is the empty text.
    LanePath, "lane path", "it is empty or made of parts like role[0] joined by /", is_lane_path
}
name! {
    /// One run of one workflow on one input: 26 characters of lower-case Crockford base 32, which sort by time of
    /// creation (<https://github.com/ulid/spec>).
    ThreadId, "thread id", "it is 26 characters of 0-9 and a-z without i, l, o and u",
    is_ulid
}
name! {
    /// Threads of one workflow on many inputs; written like a thread's id.
    BatchId, "batch id", "it is 26 characters of 0-9 and a-z without i, l, o and u", is_ulid
}

impl ThreadId {
    pub fn from_parts(unix_ms: u64, random: u128) -> Self {
        Self(Arc::from(ulid(unix_ms, random)))
    }

    /// When the thread was created, in Unix milliseconds: the first ten characters.
    pub fn unix_ms(&self) -> u64 {
        let digit = |byte: u8| ALPHABET.iter().position(|known| *known == byte).unwrap_or(0);
        self.0.bytes().take(10).fold(0, |bits, byte| bits << 5 | u64::try_from(digit(byte)).unwrap_or(0))
    }
}

impl BatchId {
    pub fn from_parts(unix_ms: u64, random: u128) -> Self {
        Self(Arc::from(ulid(unix_ms, random)))
    }
}

impl RoleName {
    /// The name that stands for the start of a thread; no role has it.
    pub(crate) fn start() -> Self {
        Self(Arc::from("start"))
    }
}

pub const MAX_LANES: usize = 10_000;

impl LanePath {
    /// The lane in which a thread starts.
    pub fn trunk() -> Self {
        Self(Arc::from(""))
    }

    pub fn is_trunk(&self) -> bool {
        self.0.is_empty()
    }

    /// The lane that `role` opens at position `index` of a fan-out of this one.
    #[must_use]
    pub fn child(&self, role: &RoleName, index: u32) -> Self {
        let path = if self.is_trunk() { format!("{role}[{index}]") } else { format!("{self}/{role}[{index}]") };
        Self(Arc::from(path))
    }

    /// The lane whose fan-out opened this one, or `None` for the trunk.
    pub fn parent(&self) -> Option<Self> {
        if self.is_trunk() {
            return None;
        }
        Some(self.0.rsplit_once('/').map_or_else(Self::trunk, |(parent, _)| Self(Arc::from(parent))))
    }

    /// This lane, then each outer lane, up to the trunk.
    pub fn outward(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// The parts of the path, outermost first: the first role of the branch, and the branch's index.
    pub fn parts(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.split('/').filter_map(|part| {
            let (role, index) = part.strip_suffix(']')?.split_once('[')?;
            Some((role, index.parse().ok()?))
        })
    }

    /// The name of `role` in this lane in scripts and scenarios: `role` in the trunk, `role[2]` in a lane of that
    /// index, `a[0]/role[2]` in a nested one.
    pub fn role_in_lane(&self, role: &RoleName) -> String {
        match (self.last_index(), self.parent()) {
            (Some(index), Some(parent)) => parent.child(role, index).to_string(),
            _ => role.to_string(),
        }
    }

    /// The index of the innermost lane, or `None` for the trunk.
    pub fn last_index(&self) -> Option<u32> {
        let (_, index) = self.0.rsplit_once('[')?;
        index.strip_suffix(']')?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_path_is_made_of_role_and_index() {
        for good in ["", "a[0]", "a[0]/b[12]", "a[0]/b_c[12]", "review_er[3]"] {
            assert!(LanePath::new(good).is_ok(), "{good}");
        }
        for bad in ["a", "a[]", "a[01]", "a[0]/", "/a[0]", "A[0]", "a[-1]", "a[0]b[1]"] {
            assert!(LanePath::new(bad).is_err(), "{bad}");
        }
        let nested = LanePath::new("a[0]/b[12]").unwrap();
        let c = RoleName::new("c").unwrap();
        let names =
            [LanePath::trunk(), LanePath::new("a[3]").unwrap(), nested.clone()].map(|lane| lane.role_in_lane(&c));
        assert_eq!(names, ["c", "c[3]", "a[0]/c[12]"]);
        assert_eq!(nested.last_index(), Some(12));
        assert_eq!(nested.parts().collect::<Vec<_>>(), [("a", 0), ("b", 12)]);
        assert_eq!(nested.parent(), LanePath::new("a[0]").ok());
        assert_eq!(nested.parent().and_then(|lane| lane.parent()), Some(LanePath::trunk()));
        let (a, b) = (RoleName::new("a").unwrap(), RoleName::new("b").unwrap());
        assert_eq!(LanePath::trunk().child(&a, 0).child(&b, 12), nested);
        assert_eq!((LanePath::trunk().parts().count(), LanePath::trunk().parent()), (0, None));
    }

    #[test]
    fn thread_ids_sort_by_time() {
        let early = ThreadId::from_parts(1_700_000_000_000, u128::MAX);
        let late = ThreadId::from_parts(1_700_000_000_001, 0);
        assert_eq!((early.unix_ms(), late.unix_ms()), (1_700_000_000_000, 1_700_000_000_001));
        assert!(early < late);
        assert_eq!(ThreadId::new(early.as_str()), Ok(early));
    }
}
