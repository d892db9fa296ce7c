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
