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
const BEGINNINGS: &str = "sk- sk_ pk_ rk_ ghp_ gho_ ghs_ github_pat_ glpat- xox hf_ npm_ pypi- AKIA AIza";

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
        && (BEGINNINGS.split(' ').any(|beginning| word.starts_with(beginning))
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
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_name_or_by_its_look() {
        for (name, value) in [
            ("API_KEY", "x"),
            ("x-auth-header", "x"),
            ("PGPW", "correcthorse"),
            ("DATABASE", "postgres://me:secret@host/db"),
            ("WHATEVER", "sk-0123456789abcdef"),
        ] {
            assert!(holds_a_key(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("MODE", "production"),
            ("PORT", "8080"),
            ("GIT_ASKPASS", "./steal.sh"),
            ("PWD", "/srv"),
            ("URL", "https://example.org/v1"),
            ("LANG", "en_US.UTF-8"),
        ] {
            assert!(!holds_a_key(name, value), "{name}");
        }
    }

    #[test]
    fn a_key_in_a_header_is_masked_behind_its_scheme() {
        let shown = masked("Authorization", "Bearer sk-0123456789abcdef");
        assert!(shown.starts_with("Bearer [a key, sha256 ") && !shown.contains("sk-"), "{shown}");
        assert!(masked("x-api-key", "0123456789abcdef").starts_with("[a key"));
    }

    #[test]
    fn nothing_that_could_be_a_command_is_masked() {
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        for command in [
            "bash|-c|TOKEN=x;{curl,evil.example};exec<>docs-server",
            "sh|-c|TOKEN=abcdefgh",
            "node|--token|./evil.js",
            "x|KEY=$(evil)",
            "x|--api-key|--require=evil",
        ] {
            assert_eq!(masked_words(&words(command)), words(command), "{command}");
        }
        for (name, value) in [
            ("NODE_OPTIONS", "--require=./evil.js --title=a://b@c"),
            ("SSL_KEY_LOG", "/home/me/.ssh/authorized_keys"),
            ("MY_KEY", "./evil.sh"),
            ("MY_KEY", "a b"),
            ("MY_TOKEN", "$(evil)"),
        ] {
            assert_eq!(masked(name, value), value, "{name}");
        }
        let address = masked("DATABASE", "postgres://me:secret99@host/db");
        assert!(address.starts_with("postgres://me:[a key, sha256 ") && address.ends_with("]@host/db"), "{address}");
    }

    #[test]
    fn keys_in_commands_and_addresses_are_found_and_not_shown() {
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let command = words("--port|80|--token|abc|--api-key=def|PASSWORD=ghi|Authorization: Bearer jkl0123|--verbose");
        let found: Vec<(String, String)> = in_words(&command).into_iter().map(|key| (key.name, key.value)).collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found[..3], [("TOKEN", "abc"), ("API_KEY", "def"), ("PASSWORD", "ghi")]);
        assert_eq!(found[3].1, "jkl0123");
        let shown = masked_words(&command).join(" ");
        assert!(["abc", "def", "ghi", "jkl"].iter().all(|key| !shown.contains(key)), "{shown}");
        assert!(shown.contains("--port 80") && shown.contains("--verbose"), "{shown}");

        let bare = words(
            "serve|sk-live-4711-0815|a1b2c3d4e5f6a7b8c9|gpt-4o-mini-2024-07-18|123e4567-e89b-12d3-a456-426614174000|--all",
        );
        let found: Vec<String> = in_words(&bare).into_iter().map(|key| key.value).collect();
        assert_eq!(found, ["sk-live-4711-0815", "a1b2c3d4e5f6a7b8c9"]);

        let program =
            words("sh|-c|MODE=a1b2c3d4e5f6 TOKEN='t0k3n-0815-4711'; exec x --api-key k3y0123456789 --session live");
        let found: Vec<String> = in_words(&program).into_iter().map(|key| key.value).collect();
        assert_eq!(found, ["t0k3n-0815-4711", "k3y0123456789"]);

        let address = "https://host/sse?team=7&api_key=0123456789";
        assert_eq!(in_address(address).len(), 1);
        let shown = masked_address(address);
        assert!(shown.starts_with("https://host/sse?team=7&api_key=[a key, sha256 "), "{shown}");
        assert_ne!(shown, masked_address("https://host/sse?team=7&api_key=other"), "a change is seen");
    }
}
