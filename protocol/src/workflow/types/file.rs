//! Files as inputs. Whoever starts a thread gives a file with its contents ([`File`]). In the input of a thread, a file
//! is named by its digest: `{"digest", "media_type", "name", "size"}`. The contents are objects of kind `file`.

use std::collections::BTreeMap;

use super::{closed_object, of_type};
use crate::canonical::Value;
use crate::digest::Digest;
use crate::file::{File, FileError, is_media_type, is_name};
use crate::message::FileRef;

/// The word of the type in a workflow file.
pub const FILE: &str = "file";

/// The JSON Schema of the type: that of a file in the input of a thread. `format` tells it from other objects.
pub(super) fn schema() -> Value {
    let names = ["digest", "media_type", "name", "size"];
    let size = Value::from_iter([("minimum", Value::from(0)), ("type", Value::from("integer"))]);
    let properties = names.map(|name| (name, if name == "size" { size.clone() } else { of_type("string") }));
    let mut schema = closed_object(Value::from_iter(properties), names.map(Value::from).into());
    if let Value::Object(members) = &mut schema {
        members.insert("format".to_owned(), Value::from(FILE));
    }
    schema
}

/// Whether the schema is that of a file.
pub fn is_file(schema: &Value) -> bool {
    schema.get("format").and_then(Value::as_str) == Some(FILE)
        && schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Whether the schema is that of a list of files.
pub fn is_files(schema: &Value) -> bool {
    schema.get("items").is_some_and(is_file)
}

/// Whether the shorthand for a file has a part in the schema, as it is or within lists and objects of shorthands.
pub fn holds_files(schema: &Value) -> bool {
    let has_items = schema.get("items").is_some_and(holds_files);
    let has_member = match schema.get("properties") {
        Some(Value::Object(properties)) => properties.values().any(holds_files),
        _ => false,
    };
    has_items || has_member || *schema == self::schema()
}

/// The file that a value in the input of a thread names.
pub fn file_ref(value: &Value) -> Option<FileRef> {
    let Value::Object(members) = value else { return None };
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    if members.len() != 4 || !matches!(members.get("size"), Some(Value::Int(_))) {
        return None;
    }
    let (digest, media_type, name) = (Digest::from_hex(text("digest")?)?, text("media_type")?, text("name")?);
    Some(FileRef { digest, media_type: media_type.to_owned(), name: name.to_owned() })
}

/// The files that a value of a thread's input names, with those in lists and objects.
pub fn files_of(value: &Value) -> Vec<FileRef> {
    match value {
        Value::Object(members) => match file_ref(value) {
            Some(file) => vec![file],
            None => members.values().flat_map(files_of).collect(),
        },
        Value::List(items) => items.iter().flat_map(files_of).collect(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => Vec::new(),
    }
}

/// A value of a thread's input with the contents that `read` gives of its files, so that it can be given again.
///
/// # Errors
/// Those of `read`.
pub fn with_contents<E>(value: &Value, read: &mut impl FnMut(&FileRef) -> Result<Vec<u8>, E>) -> Result<Value, E> {
    Ok(match (value, file_ref(value)) {
        (_, Some(file)) => {
            let bytes = read(&file)?;
            File { name: file.name, media_type: file.media_type, bytes: bytes.into() }.to_value()
        }
        (Value::Object(members), None) => {
            let member = |(name, value): (&String, &Value)| Ok((name.clone(), with_contents(value, read)?));
            Value::Object(members.iter().map(member).collect::<Result<_, E>>()?)
        }
        (Value::List(items), None) => {
            Value::List(items.iter().map(|item| with_contents(item, read)).collect::<Result<_, E>>()?)
        }
        (value, None) => value.clone(),
    })
}

/// Checks a value of that type: a file with its contents becomes one whose media type is stated.
pub(super) fn checked(value: &Value) -> Result<Value, FileError> {
    if let Some(file) = file_ref(value) {
        let is_sound = is_name(&file.name) && is_media_type(&file.media_type);
        return is_sound.then(|| value.clone()).ok_or(FileError::Shape);
    }
    File::read(value).map(|file| file.to_value())
}

/// Takes the contents out of the files of an input that was checked, and names each by its digest.
pub fn take_files(input: &mut BTreeMap<String, Value>, is_of_files: impl Fn(&str) -> bool) -> Vec<File> {
    let mut taken = Vec::new();
    let mut take = |value: &mut Value| {
        if let (None, Ok(file)) = (file_ref(value), File::read(value)) {
            *value = file.named();
            taken.push(file);
        }
    };
    for (_, value) in input.iter_mut().filter(|(name, _)| is_of_files(name)) {
        match value {
            Value::List(items) => items.iter_mut().for_each(&mut take),
            value => take(value),
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;

    use super::*;
    use crate::digest::Kind;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";

    fn value(json: &str) -> Value {
        crate::canonical::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_is_given_in_three_forms_and_named_in_one() {
        let data = BASE64.encode(PNG);
        for given in [
            format!(r#"{{"name":"tide.png","data":"{data}"}}"#),
            format!(r#"{{"name":"tide.png","data":"data:image/png;base64,{data}"}}"#),
            format!(r#"{{"name":"tide.png","media_type":"image/png","data":"{data}"}}"#),
        ] {
            let checked = checked(&value(&given)).unwrap();
            let mut input = BTreeMap::from([("photo".to_owned(), checked)]);
            let files = take_files(&mut input, |name| name == "photo");
            assert_eq!(files, [File { name: "tide.png".into(), media_type: "image/png".into(), bytes: PNG.into() }]);
            let named = file_ref(&input["photo"]).unwrap();
            assert_eq!((named.digest, named.name.as_str()), (Digest::of_bytes(Kind::File, PNG), "tide.png"));
            assert_eq!(checked_again(&input["photo"]), input["photo"]);
            assert_eq!(files_of(&Value::Object(input)).len(), 1);
        }
        let url =
            checked(&Value::from(format!("data:text/plain;charset=utf-8;base64,{}", BASE64.encode(b"a")))).unwrap();
        assert_eq!(url.get("media_type"), Some(&Value::from("text/plain")));
    }

    fn checked_again(value: &Value) -> Value {
        checked(value).unwrap()
    }

    #[test]
    fn what_is_no_file_is_told_apart() {
        for (given, fault) in [
            ("7", FileError::Shape),
            (r#""photo.png""#, FileError::DataUrl),
            (r#""data:image/png,abc""#, FileError::DataUrl),
            (r#"{"name":"a"}"#, FileError::Shape),
            (r#"{"data":"!"}"#, FileError::Base64),
            (r#"{"data":"YQ==","name":"../a"}"#, FileError::Name),
            (r#"{"data":"YQ==","name":""}"#, FileError::Name),
            (r#"{"data":"YQ==","media_type":"png"}"#, FileError::MediaType),
            (r#"{"data":"YQ==","more":1}"#, FileError::Shape),
        ] {
            assert_eq!(checked(&value(given)), Err(fault), "{given}");
        }
    }
}
