//! What is read of a server: bounded, so that no reply takes more memory than it says, and as far as it can be read.

use std::fmt;
use std::marker::PhantomData;

use rondo_protocol::call::Fault;
use rondo_protocol::object::{Finish, Usage};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::http::refusal;
use super::protocol::{too_large, unreadable};
use crate::redact::Redactor;

pub(super) const MAX_TOOL_CALLS: usize = 128;

/// The maximum items of a list in one event. An item may be a hundred times as large in memory as on the wire.
pub(super) const MAX_ITEMS: usize = 1024;

/// A list of at most [`MAX_ITEMS`] items; a longer one is refused before it takes up memory.
pub(super) struct Items<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut items = Vec::new();
        each(deserializer, format_args!("a list of at most {MAX_ITEMS} items"), |item| {
            if items.len() >= MAX_ITEMS {
                return Err(format!("a list has more than {MAX_ITEMS} items"));
            }
            items.push(item);
            Ok(())
        })?;
        Ok(Items(items))
    }
}

/// Takes the items of a list one by one, until one is not taken. `what` tells what should stand there.
pub(super) fn each<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    list: D,
    what: fmt::Arguments<'_>,
    take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), D::Error> {
    struct Each<'w, T, F>(fmt::Arguments<'w>, F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for Each<'_, T, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_fmt(self.0)
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(item) = list.next_element()? {
                (self.1)(item).map_err(A::Error::custom)?;
            }
            Ok(())
        }
    }

    list.deserialize_seq(Each(what, take, PhantomData))
}

/// Takes the members of an object one by one, until one is not taken. `what` tells what should stand there.
pub(super) fn each_member<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    object: D,
    what: fmt::Arguments<'_>,
    take: impl FnMut(String, T) -> Result<(), String>,
) -> Result<(), D::Error> {
    struct EachMember<'w, T, F>(fmt::Arguments<'w>, F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: FnMut(String, T) -> Result<(), String>> Visitor<'de> for EachMember<'_, T, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_fmt(self.0)
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
            while let Some((name, value)) = object.next_entry()? {
                (self.1)(name, value).map_err(A::Error::custom)?;
            }
            Ok(())
        }
    }

    object.deserialize_map(EachMember(what, take, PhantomData))
}

/// The items of a list, as they came.
pub(super) fn items(list: &str) -> Result<Vec<&RawValue>, Fault> {
    serde_json::from_str::<Items<&RawValue>>(list).map(|items| items.0).map_err(|error| too_large(error.to_string()))
}

/// What every protocol keeps of a reply while it arrives.
#[derive(Debug, Default)]
pub struct Progress {
    max_bytes: usize,
    /// The bytes of text, reasoning and tool calls so far.
    pub(super) said_bytes: usize,
    calls: usize,
    /// The tokens counted so far.
    pub(super) usage: Option<Usage>,
    /// How the reply ended; what it cost may follow.
    pub(super) end: Option<Result<Finish, Fault>>,
}

impl Progress {
    /// Begins a reply with at most `max_bytes` of text, reasoning and tool calls.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Counts bytes before they are kept.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        self.said_bytes = self.said_bytes.saturating_add(bytes);
        if self.said_bytes > self.max_bytes {
            return Err(too_large(format!("the reply is longer than {} bytes", self.max_bytes)));
        }
        Ok(())
    }

    /// Counts a tool call before it is kept.
    pub(super) fn take_call(&mut self) -> Result<(), Fault> {
        if self.calls >= MAX_TOOL_CALLS {
            return Err(too_large(format!("the reply asks for more than {MAX_TOOL_CALLS} tools")));
        }
        self.calls += 1;
        Ok(())
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Takes the figures of an event, if they can be read: the last ones count.
    pub(super) fn count(&mut self, usage: Option<Usage>) {
        self.usage = usage.or(self.usage);
    }

    /// Ends the reply for a reason that is `known`, or not known to be one: `what` it is.
    pub(super) fn end(&mut self, known: Option<Finish>, what: &str, reason: &str, redactor: &Redactor) {
        self.end = Some(known.ok_or_else(|| {
            let reason = refusal::words(reason, redactor);
            unreadable(format!("the provider ended the reply with `{reason}`, which is no known {what}"))
        }));
    }

    /// Forgets what was said.
    pub(super) fn restart(&mut self) {
        (self.said_bytes, self.calls) = (0, 0);
    }
}

/// A text, if it is one.
pub(super) fn text(json: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(json?.get()).ok()
}

/// A number that may be written as a text.
pub(super) fn number(json: Option<&RawValue>) -> Option<u64> {
    json?.get().trim_matches('"').parse().ok()
}

/// A word that may be written as a number.
pub(super) fn word(json: Option<&RawValue>) -> Option<String> {
    text(json).or_else(|| json.filter(|json| number(Some(json)).is_some()).map(|json| json.get().to_owned()))
}
