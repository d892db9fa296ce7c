//! Files as inputs: an image or a document for a model to read.
//!
//! Whoever starts a thread gives a file with its contents: `{"name": .., "data": BASE64}`, where `media_type` may be
//! missing, or a data URL (RFC 2397). In the input of a thread, a file is named by its digest:
//! `{"digest", "media_type", "name", "size"}`. The contents are objects of kind `file`.

use std::collections::BTreeMap;

use data_encoding::BASE64;

use crate::canonical::Value;
use crate::digest::{Digest, Kind};
use crate::message::FileRef;

/// The word of the type in a workflow file.
pub const FILE: &str = "file";

/// The maximum bytes of a name.
const MAX_NAME_BYTES: usize = 255;

/// The JSON Schema of the type: that of a file in the input of a thread. `format` tells it from other objects.
pub(super) fn schema() -> Value {
    let text = || [("type", Value::from("string"))].into_iter().collect::<Value>();
    let size = [("minimum", Value::from(0)), ("type", Value::from("integer"))].into_iter().collect::<Value>();
    let names = ["digest", "media_type", "name", "size"];
    let properties: Value =
        names.map(|name| (name, if name == "size" { size.clone() } else { text() })).into_iter().collect();
    [
        ("additionalProperties", Value::Bool(false)),
        ("format", Value::from(FILE)),
        ("properties", properties),
        ("required", Value::List(names.map(Value::from).into())),
        ("type", Value::from("object")),
    ]
    .into_iter()
    .collect()
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

/// A file with its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub media_type: String,
    pub bytes: Vec<u8>,
}

/// Why a value is no file; a fragment that completes "the input `photo` does not fit: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("a file is an object with `name` and `data`, or a data URL")]
    Shape,
    #[error("`data` is not base64")]
    Base64,
    #[error("it is not a data URL such as `data:image/png;base64,...`")]
    DataUrl,
    #[error("`name` must be a file name of at most {MAX_NAME_BYTES} bytes, without a folder")]
    Name,
    #[error("`media_type` must be one such as `image/png`")]
    MediaType,
}

impl File {
    /// A file whose media type is told by its contents, else by its name.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), media_type: media_type_of(name, &bytes).to_owned(), bytes }
    }

    pub fn digest(&self) -> Digest {
        Digest::of_bytes(Kind::File, &self.bytes)
    }

    /// The file as it is given.
    pub fn to_value(&self) -> Value {
        let data = Value::from(BASE64.encode(&self.bytes));
        let (media_type, name) = (Value::from(self.media_type.as_str()), Value::from(self.name.as_str()));
        [("data", data), ("media_type", media_type), ("name", name)].into_iter().collect()
    }

    /// The file as it stands in the input of a thread.
    pub fn named(&self) -> Value {
        [
            ("digest", Value::from(self.digest().to_string())),
            ("media_type", Value::from(self.media_type.as_str())),
            ("name", Value::from(self.name.as_str())),
            ("size", Value::Int(i128::try_from(self.bytes.len()).unwrap_or(i128::MAX))),
        ]
        .into_iter()
        .collect()
    }

    /// Reads a file with its contents.
    fn read(value: &Value) -> Result<Self, FileError> {
        if let Some(url) = value.as_str() {
            return Self::of_data_url(url);
        }
        let Value::Object(members) = value else { return Err(FileError::Shape) };
        let text = |name: &str| members.get(name).map(|text| text.as_str().ok_or(FileError::Shape)).transpose();
        let known = ["data", "media_type", "name", "size"];
        let (Some(data), true) = (text("data")?, members.keys().all(|name| known.contains(&name.as_str()))) else {
            return Err(FileError::Shape);
        };
        let file = if data.starts_with("data:") {
            Self::of_data_url(data)?
        } else {
            Self { name: String::new(), media_type: String::new(), bytes: base64(data)? }
        };
        let name = text("name")?.unwrap_or("file");
        let media_type = text("media_type")?.map(str::to_owned).filter(|given| !given.is_empty());
        let media_type = media_type.or_else(|| Some(file.media_type).filter(|told| !told.is_empty()));
        let media_type = media_type.unwrap_or_else(|| media_type_of(name, &file.bytes).to_owned());
        Self { name: name.to_owned(), media_type, bytes: file.bytes }.checked()
    }

    fn of_data_url(url: &str) -> Result<Self, FileError> {
        let (about, data) =
            url.strip_prefix("data:").and_then(|rest| rest.split_once(',')).ok_or(FileError::DataUrl)?;
        let about = about.strip_suffix(";base64").ok_or(FileError::DataUrl)?;
        let bytes = base64(data)?;
        let stated = about.split(';').next().unwrap_or_default();
        let media_type = if stated.is_empty() { media_type_of("", &bytes).to_owned() } else { stated.to_owned() };
        Self { name: "file".to_owned(), media_type, bytes }.checked()
    }

    fn checked(self) -> Result<Self, FileError> {
        if !is_name(&self.name) {
            return Err(FileError::Name);
        }
        if !is_media_type(&self.media_type) {
            return Err(FileError::MediaType);
        }
        Ok(self)
    }
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
            File { name: file.name, media_type: file.media_type, bytes }.to_value()
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
        return if is_name(&file.name) && is_media_type(&file.media_type) {
            Ok(value.clone())
        } else {
            Err(FileError::Shape)
        };
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

fn base64(text: &str) -> Result<Vec<u8>, FileError> {
    BASE64.decode(text.trim().as_bytes()).map_err(|_| FileError::Base64)
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.chars().any(|letter| matches!(letter, '/' | '\\') || letter.is_control())
        && !matches!(name, "." | "..")
}

/// RFC 6838, 4.2.
fn is_media_type(text: &str) -> bool {
    let is_part = |part: &str| {
        (1..=127).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    text.split_once('/').is_some_and(|(kind, subtype)| is_part(kind) && is_part(subtype))
}

/// How files of a type begin (<https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern>).
const BEGINNINGS: [(&[u8], &str); 6] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"BM", "image/bmp"),
];

const ENDINGS: [(&str, &str); 8] = [
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
];

/// The media type: by how the contents begin, else by the ending of the name, else that of text or of anything.
fn media_type_of(name: &str, bytes: &[u8]) -> &'static str {
    if let Some((_, known)) = BEGINNINGS.iter().find(|(beginning, _)| bytes.starts_with(beginning)) {
        return known;
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return "image/webp";
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    let known = ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, known)| *known);
    let is_text = std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
    known.unwrap_or(if is_text { "text/plain" } else { "application/octet-stream" })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_media_type_is_told_by_the_contents_first() {
        for (name, bytes, wanted) in [
            ("a.txt", PNG, "image/png"),
            ("a.png", b"plain".as_slice(), "text/plain"),
            ("a.md", b"# A", "text/markdown"),
            ("a", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
            ("a", b"\0\x01\xff", "application/octet-stream"),
            ("a.PDF", b"%PDF-1.7", "application/pdf"),
        ] {
            assert_eq!(media_type_of(name, bytes), wanted, "{name}");
        }
    }
}
