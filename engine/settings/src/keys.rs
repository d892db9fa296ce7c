//! Detects keys in a settings file by name: of variables, command options and address parts. They are secrets
//! everywhere, and never shown.

use rondo_agent_kit::redact::bare_key;
use rondo_protocol::Digest;

use super::Secret;

const WORDS: [&str; 9] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE", "SESSION", "SIGNATURE"];

const ENDINGS: [&str; 5] = ["PW", "PWD", "PSW", "PAT", "DSN"];

/// The name of a program that asks for a password, which is a command and not a key.
const ASKS_FOR_ONE: &str = "ASKPASS";

/// The shortest value that looks like a key regardless of its name.
const KEY_LIKE_BYTES: usize = 12;

/// How keys of common services begin.
const BEGINNINGS: [&str; 15] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "hf_",
    "npm_",
    "pypi-",
    "AKIA",
    "AIza",
];

/// The shortest run of letters and digits that is no word, model or version.
const RANDOM_BYTES: usize = 16;

/// Options whose value is program text, which a person must see before agreeing.
const PROGRAM_TEXTS: [&str; 6] = ["-c", "-e", "-m", "--eval", "--exec", "--command"];

/// The shortest value with a slash that counts as a key and not as a path.
const KEY_WITH_SLASH_BYTES: usize = 16;

/// Whether a variable holds a key: by its name, or by the form of its value, because a setting may use any variable
/// name.
pub(crate) fn holds_a_key(name: &str, value: &str) -> bool {
    is_named(name) || has_password(value) || looks_like_a_key(value)
}

fn is_named(name: &str) -> bool {
    let name = name.to_uppercase().replace('-', "_");
    if name.contains(ASKS_FOR_ONE) {
        return false;
    }
    let is_working_folder = matches!(name.as_str(), "PWD" | "OLDPWD");
    WORDS.iter().any(|word| name.contains(word)) || !is_working_folder && ENDINGS.iter().any(|end| name.ends_with(end))
}

/// Whether it is an address with a user or a password.
fn has_password(value: &str) -> bool {
    let authority = value.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    authority.is_some_and(|authority| authority.contains('@'))
}

/// Mixed letters and digits without a blank, a dot, a slash or a colon: not a word, path, address or version.
fn looks_like_a_key(value: &str) -> bool {
    let is_part =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=' | '!' | '$' | '%' | '&' | '#');
    let (mut digits, mut letters) = (0, 0);
    for c in value.chars() {
        digits += usize::from(c.is_ascii_digit());
        letters += usize::from(c.is_ascii_alphabetic());
    }
    value.len() >= KEY_LIKE_BYTES && value.chars().all(is_part) && digits > 1 && letters > 1
}

/// Whether an argument is a key by its look alone, without an option that says so.
fn is_bare_key(word: &str) -> bool {
    let is_random = |run: &str| run.len() >= RANDOM_BYTES && looks_like_a_key(run);
    looks_like_a_key(word)
        && (BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
            || word.split(|c: char| !c.is_ascii_alphanumeric()).any(is_random))
}

/// The value of a variable in displayable form. Only what can only be a key is masked: a command or a path under such
/// a name must be visible.
pub fn masked(name: &str, value: &str) -> String {
    if let Some(without) = without_password(value) {
        return without;
    }
    let key = bare_key(value);
    match value.strip_suffix(key) {
        Some(scheme) if holds_a_key(name, value) && can_be_a_key(key) => format!("{scheme}{}", mask(key)),
        _ => value.to_owned(),
    }
}

fn can_be_a_key(value: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=' | '/');
    let has_slash = value.contains('/');
    value.chars().all(is_part) && !value.starts_with(['-', '/']) && (!has_slash || value.len() >= KEY_WITH_SLASH_BYTES)
}

fn without_password(value: &str) -> Option<String> {
    let (scheme, rest) = value.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let (login, host) = authority.rsplit_once('@')?;
    let (user, password) = login.split_once(':')?;
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.~+=%".contains(c));
    (is_plain(scheme) && is_plain(user) && is_plain(password))
        .then(|| format!("{scheme}://{user}:{}@{host}{path}", mask(password)))
}

/// The replacement for a key: different keys are distinguishable, and no key can be recovered from it.
fn mask(value: &str) -> String {
    format!("[a key, sha256 {}]", Digest::sha256(value.as_bytes()))
}

pub fn masked_words(words: &[String]) -> Vec<String> {
    let mut shown = words.to_vec();
    for (at, before, key) in places(words) {
        if let Some(word) = shown.get_mut(at) {
            *word = format!("{before}{}", mask(&key));
        }
    }
    shown
}

/// The keys among the words of a command, each with its option.
pub fn in_words(words: &[String]) -> Vec<Secret> {
    let name = |at: usize, before: &str| {
        let option = if before.is_empty() { words.get(at.wrapping_sub(1)).map_or("", String::as_str) } else { before };
        option.trim_matches(|c| matches!(c, '-' | '=' | ':' | ' ')).to_uppercase().replace('-', "_")
    };
    let places = places(words).into_iter();
    let mut found: Vec<Secret> = places.map(|(at, before, value)| Secret { name: name(at, &before), value }).collect();
    // Shown, because nothing says that they are keys; but a server may echo them.
    let bare = words.iter().filter(|word| is_bare_key(word) && !found.iter().any(|key| key.value == **word));
    let bare: Vec<Secret> = bare.map(|key| Secret { name: "ARGUMENT".to_owned(), value: key.clone() }).collect();
    found.extend(bare);
    // The text of a program is shown whole, but a server may echo it.
    let texts = words.windows(2).filter_map(|pair| match pair {
        [option, text] if PROGRAM_TEXTS.contains(&option.as_str()) => Some(text),
        _ => None,
    });
    for text in texts {
        let unquoted = text.replace(['\'', '"'], "");
        let parts = unquoted.split(|c: char| c.is_whitespace() || "();|&".contains(c));
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).map(str::to_owned).collect();
        found.extend(in_words(&parts).into_iter().filter(|key| looks_like_a_key(&key.value)));
    }
    found
}

/// The keys in a command: the word, the part of it before the key, and the key. `--token KEY`, `--token=KEY`,
/// `token=KEY`, `Authorization: Bearer KEY`.
fn places(words: &[String]) -> Vec<(usize, String, String)> {
    let mut places = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        if before.is_some_and(|before| PROGRAM_TEXTS.contains(&before.as_str())) {
            continue;
        }
        if before.is_some_and(|before| before.starts_with('-') && !before.contains('=') && is_named(before))
            && can_be_a_key(word)
        {
            places.push((at, String::new(), word.clone()));
        } else if let Some((name, value)) = word.split_once(['=', ':'])
            && is_named(name)
            && !name.contains(char::is_whitespace)
            && !value.trim().is_empty()
            && !value.starts_with("//")
        {
            let value = value.trim();
            let key = bare_key(value);
            if let Some(before) = word.strip_suffix(key).filter(|_| can_be_a_key(key)) {
                places.push((at, before.to_owned(), key.to_owned()));
            }
        }
    }
    places
}

/// An address in displayable form: values in its query that look like keys are masked.
pub fn masked_address(address: &str) -> String {
    let Some((base, query)) = address.split_once('?') else { return address.to_owned() };
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some((name, value)) => format!("{name}={}", masked(name, value)),
        None => part.to_owned(),
    });
    format!("{base}?{}", parts.collect::<Vec<_>>().join("&"))
}

pub(crate) fn in_address(address: &str) -> Vec<Secret> {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let parts = query.split('&').filter_map(|part| part.split_once('='));
    let keys = parts.filter(|(name, value)| holds_a_key(name, value));
    keys.map(|(name, value)| Secret { name: name.to_uppercase(), value: value.to_owned() }).collect()
}

#[cfg(test)]
mod tests;
