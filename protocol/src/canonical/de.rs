//! Deserializes typed objects from a [`Value`], and a [`Value`] from any serde source.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::{Error, MAX_INTEGER, Value};

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Shape(message.to_string())
    }
}

impl IntoDeserializer<'_, Error> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(truth) => visitor.visit_bool(truth),
            Self::Int(number) => match (u64::try_from(number), i64::try_from(number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_i128(number),
            },
            Self::Float(number) => visitor.visit_f64(number),
            Self::Str(text) => visitor.visit_string(text),
            Self::List(items) => {
                let mut list = SeqDeserializer::new(items.into_iter());
                let value = visitor.visit_seq(&mut list)?;
                list.end()?;
                Ok(value)
            }
            Self::Object(members) => {
                let mut object = MapDeserializer::new(members.into_iter());
                let value = visitor.visit_map(&mut object)?;
                object.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Self::Str(variant) => visitor.visit_enum(variant.into_deserializer()),
            Self::Object(members) => {
                visitor.visit_enum(de::value::MapAccessDeserializer::new(MapDeserializer::new(members.into_iter())))
            }
            _ => Err(Error::Shape("expected the name of a variant".to_owned())),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// With `serde_json`'s feature `arbitrary_precision`, a number reaches a foreign visitor as an object with this key. It
/// is refused, so that such a build fails loudly instead of hashing differently.
const PRIVATE_NUMBER_KEY: &str = "$serde_json::private::Number";

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(i128::from(number)))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Int(i128::from(number)))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<Value, E> {
        if number.abs() > MAX_INTEGER { Err(E::custom(Error::IntegerRange)) } else { Ok(Value::Int(number)) }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Value::number(number).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Str(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::Str(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((key, value)) = access.next_entry::<String, Value>()? {
            if key == PRIVATE_NUMBER_KEY {
                return Err(de::Error::custom("this build of serde_json has arbitrary_precision switched on"));
            }
            if members.contains_key(&key) {
                return Err(de::Error::custom(Error::DuplicateKey(key)));
            }
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}
