//! Limits of a thread and of a role.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Reader;
use super::part::Part;
use crate::canonical::{self, Value};
use crate::workflow::format::{KeySpec, LIMITS, ROLE_LIMITS, Shape};
use crate::workflow::{Limits, RoleLimits};

impl Reader<'_> {
    pub(super) fn limits(&mut self, part: &Part<'_>) -> Limits {
        self.with_defaults(part, LIMITS.keys())
    }

    pub(super) fn role_limits(&mut self, part: &Part<'_>) -> RoleLimits {
        self.with_defaults(part, ROLE_LIMITS.keys())
    }

    /// The defaults of `T`, overridden by the file. A duration is stored as milliseconds, under a name with `_ms`.
    pub(super) fn with_defaults<T>(&mut self, part: &Part<'_>, keys: &[KeySpec]) -> T
    where
        T: Default + Serialize + DeserializeOwned,
    {
        let defaults = T::default();
        let (Some(fields), Ok(Value::Object(mut members))) =
            (self.fields(part, keys), Value::from_serialize(&defaults))
        else {
            return defaults;
        };
        for key in keys {
            let Some(value) = fields.get(key.name).and_then(|part| self.value(part, key.shape)) else { continue };
            let unit = if matches!(key.shape, Shape::Duration) { "_ms" } else { "" };
            members.insert(format!("{}{unit}", key.name), value);
        }
        canonical::from_value(Value::Object(members)).unwrap_or(defaults)
    }
}
