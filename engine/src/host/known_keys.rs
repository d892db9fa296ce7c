//! Detects the operator's keys in files: a workflow, a script or a snapshot may be shared, a key may not.

use std::collections::BTreeMap;

use rondo_agent_kit::redact::{MIN_SECRET_BYTES, Redactor};
use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_settings::{Flags, Secret};

use super::process::working_folder;
use super::settings_files::{of_user_for, settings};
use crate::failure::{Failure, Faulty};

/// Rejects files that contain a key of the settings in force here; `sources` are their texts by name.
pub fn refuse_keys(sources: &BTreeMap<String, String>) -> Result<(), Failure> {
    // If the project's settings cannot be read, only the user's; the error is reported where the settings are needed.
    let of_user = || of_user_for(working_folder()?)?.without_asking();
    let settings = settings(&Flags::default()).or_else(|_| of_user());
    refuse(&settings.map(|settings| settings.secrets).unwrap_or_default(), sources)
}

fn refuse(secrets: &[Secret], sources: &BTreeMap<String, String>) -> Result<(), Failure> {
    let redactor = Redactor::new(secrets.iter().map(|secret| (secret.name.clone(), secret.value.clone())));
    let faults: Vec<Diagnostic> =
        sources.iter().flat_map(|(file, text)| found((secrets, &redactor), file, text)).collect();
    // Without the texts: an excerpt would show the key.
    if faults.is_empty() { Ok(()) } else { Err(Faulty { faults, ..Faulty::default() }.into()) }
}

/// The keys in a file.
fn found((secrets, redactor): (&[Secret], &Redactor), file: &str, text: &str) -> Vec<Diagnostic> {
    if redactor.text(text) == text {
        return Vec::new();
    }
    let at = |offset: usize, length: usize, message: String| {
        Diagnostic::at(Code::KeyInFile, file, text, Span::new(offset, length), message)
            .with_hint("remove it, and replace the key if the file was already shared; keys belong in the environment")
    };
    let long = secrets.iter().filter(|secret| secret.value.len() >= MIN_SECRET_BYTES);
    let plain: Vec<Diagnostic> = long
        .filter_map(|secret| {
            let message = format!("this is the value of the key {}", secret.name);
            Some(at(text.find(&secret.value)?, secret.value.len(), message))
        })
        .collect();
    if !plain.is_empty() {
        return plain;
    }
    // A key with escapes is located by its line.
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if redactor.text(line) != line {
            return vec![at(offset, line.trim_end().len(), "this line contains an encoded key".to_owned())];
        }
        offset += line.len();
    }
    vec![at(0, 0, "this file contains a key, split over several lines".to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_with_its_place_and_never_shown() {
        let secrets = [Secret { name: "OPENAI_API_KEY".to_owned(), value: "sk-0123456789".to_owned() }];
        let told = |text: &str| {
            let refused = refuse(&secrets, &[("workflow.yaml".to_owned(), text.to_owned())].into());
            refused.map_err(|failure| failure.to_string())
        };
        assert_eq!(told("rondo: 1\nname: x\n"), Ok(()));
        let plain = told("rondo: 1\nname: a sk-0123456789\n").unwrap_err();
        assert!(plain.contains("workflow.yaml:2:9") && plain.contains("OPENAI_API_KEY"), "{plain}");
        let spelt = told("rondo: 1\nname: \"\\u0073k-0123456789\"\n").unwrap_err();
        assert!(spelt.contains("workflow.yaml:2:1"), "{spelt}");
        assert!(!plain.contains("0123456789") && !spelt.contains("0123456789"));
    }
}
