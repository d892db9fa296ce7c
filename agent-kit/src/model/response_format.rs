//! How a provider is asked to constrain an answer to a format
//! (<https://platform.openai.com/docs/guides/structured-outputs>).
//!
//! Servers without schema support refuse the request or ignore the schema, so each is sent what it supports: a schema, the
//! wish for any JSON object, or nothing ([`super::dialects`]).
//!
//! The request head holds it as a schema; `ANY_OBJECT` if only an object is asked for. Answers are read the same way
//! in all cases.

use rondo_protocol::call::Fault;
use rondo_protocol::canonical;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use strum::IntoStaticStr;

use super::protocol::raw_json;
use crate::answer::is_strict;

pub(super) const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// Whether a schema can be sent in OpenAI's strict mode: it refuses schemas that it does not support, so it is asked for
/// only with the others.
pub(super) fn takes_strict(schema: &str) -> bool {
    canonical::parse(schema.as_bytes()).is_ok_and(|schema| is_strict(&schema))
}

/// A schema in a request of OpenAI's APIs.
#[derive(Serialize)]
pub(super) struct NamedSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a RawValue,
}

impl<'a> NamedSchema<'a> {
    /// `None` for the schema of any object, which has a name of its own.
    pub(super) fn of(schema: &'a str) -> Result<Option<Self>, Fault> {
        let named = |schema_json| Self { name: "answer", strict: takes_strict(schema), schema: schema_json };
        (schema != ANY_OBJECT).then(|| raw_json("the schema of the answer", schema).map(named)).transpose()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ResponseFormat {
    /// By the role's schema.
    #[default]
    JsonSchema,
    /// To any object.
    JsonObject,
    Off,
}

impl ResponseFormat {
    pub const ALL: [Self; 3] = [Self::JsonSchema, Self::JsonObject, Self::Off];

    /// The word in settings.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// The schema in the request head of a role whose answers have that schema.
    pub fn in_head(self, schema: Option<&str>) -> Option<&str> {
        match self {
            Self::JsonSchema => schema,
            Self::JsonObject => schema.map(|_| ANY_OBJECT),
            Self::Off => None,
        }
    }

    /// Which format the provider of heads with these schemas was asked for; `None` without any head.
    pub fn of_heads<'a>(heads: impl IntoIterator<Item = Option<&'a str>>) -> Option<Self> {
        let mut is_any = false;
        for held in heads {
            match held {
                Some(ANY_OBJECT) => return Some(Self::JsonObject),
                Some(_) => return Some(Self::JsonSchema),
                None => is_any = true,
            }
        }
        is_any.then_some(Self::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::dialects::Dialect;

    #[test]
    fn what_is_sent_follows_from_the_address() {
        for (address, wanted) in [
            ("https://api.openai.com/v1", ResponseFormat::JsonSchema),
            ("https://openrouter.ai/api/v1", ResponseFormat::JsonSchema),
            ("http://127.0.0.1:8080/v1", ResponseFormat::JsonSchema),
            ("not an address", ResponseFormat::JsonSchema),
            ("https://notapi.deepseek.com.example.org", ResponseFormat::JsonSchema),
            ("https://API.deepseek.com/v1", ResponseFormat::JsonObject),
            ("https://api.moonshot.ai/v1", ResponseFormat::JsonObject),
            ("https://api.groq.com/openai/v1", ResponseFormat::Off),
            ("https://api.anthropic.com/v1", ResponseFormat::Off),
        ] {
            assert_eq!(Dialect::at(address).response_format, wanted, "{address}");
        }
    }

    #[test]
    fn heads_tell_how_their_provider_was_asked() {
        let schema = Some(r#"{"type":"object","properties":{}}"#);
        for format in ResponseFormat::ALL {
            assert_eq!(ResponseFormat::of_heads([None, format.in_head(schema)]), Some(format));
            assert_eq!(format.in_head(None), None);
            assert_eq!(serde_json::to_value(format).unwrap(), format.word());
        }
        assert_eq!(ResponseFormat::of_heads([]), None);
    }
}
