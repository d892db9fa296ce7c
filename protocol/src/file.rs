//! A file with its contents: an image or a document for a model to read.
//!
//! Inputs of threads and results of tools hold files. Whoever gives one as JSON writes
//! `{"name": .., "data": BASE64}`, where `media_type` may be missing, or a data URL (RFC 2397).

use std::sync::Arc;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::canonical::Value;
use crate::digest::{Digest, Kind};
use crate::message::FileRef;

/// The maximum bytes of a name.
const MAX_NAME_BYTES: usize = 255;

/// A file with its contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its contents, which all copies share.
    #[serde(rename = "data", with = "base64_text")]
    pub bytes: Arc<[u8]>,
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// Its name, for a model to read.
    pub name: String,
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
    pub fn new(name: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { media_type: media_type_of(name, &bytes).to_owned(), name: name.to_owned(), bytes }
    }

    pub fn digest(&self) -> Digest {
        Digest::of_bytes(Kind::File, &self.bytes)
    }

    /// How a message names it.
    pub fn reference(&self) -> FileRef {
        FileRef { digest: self.digest(), media_type: self.media_type.clone(), name: self.name.clone() }
    }

    /// The file as it is given.
    pub fn to_value(&self) -> Value {
        let data = Value::from(BASE64.encode(&self.bytes));
        let (media_type, name) = (Value::from(self.media_type.as_str()), Value::from(self.name.as_str()));
        [("data", data), ("media_type", media_type), ("name", name)].into_iter().collect()
    }

    /// The file as it stands in the input of a thread.
    pub fn named(&self) -> Value {
        Value::from_iter([
            ("digest", Value::from(self.digest().to_string())),
            ("media_type", Value::from(self.media_type.as_str())),
            ("name", Value::from(self.name.as_str())),
            ("size", Value::Int(i128::try_from(self.bytes.len()).unwrap_or(i128::MAX))),
        ])
    }

    /// Reads a file with its contents.
    pub(crate) fn read(value: &Value) -> Result<Self, FileError> {
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
            Self { name: String::new(), media_type: String::new(), bytes: base64(data)?.into() }
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
        let bytes: Arc<[u8]> = base64(data)?.into();
        let stated = about.split(';').next().unwrap_or_default();
        let media_type = if stated.is_empty() { media_type_of("", &bytes).to_owned() } else { stated.to_owned() };
        Self { name: "file".to_owned(), media_type, bytes }.checked()
    }

    /// The file, if its name and its media type can stand in a thread.
    ///
    /// # Errors
    /// Which of them cannot.
    pub fn checked(self) -> Result<Self, FileError> {
        match (is_name(&self.name), is_media_type(&self.media_type)) {
            (false, _) => Err(FileError::Name),
            (_, false) => Err(FileError::MediaType),
            _ => Ok(self),
        }
    }
}

/// Contents as base64 in JSON.
mod base64_text {
    use std::sync::Arc;

    use data_encoding::BASE64;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::base64(&text).map(Into::into).map_err(de::Error::custom)
    }
}

fn base64(text: &str) -> Result<Vec<u8>, FileError> {
    BASE64.decode(text.trim().as_bytes()).map_err(|_| FileError::Base64)
}

pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.chars().any(|letter| matches!(letter, '/' | '\\') || letter.is_control())
        && !matches!(name, "." | "..")
}

/// RFC 6838, 4.2.
pub(crate) fn is_media_type(text: &str) -> bool {
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
pub fn media_type_of(name: &str, bytes: &[u8]) -> &'static str {
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
