use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, ThreadId};

use super::*;

/// The maximum length of a key at OpenAI.
const KEY_MAX_BYTES: usize = 64;
use crate::model::{protocol, test_call, test_outgoing};

fn request(
    call: &ModelCall,
    host: &str,
    prompt_cache: PromptCache,
    prompt_cache_retention: Option<CacheRetention>,
) -> CacheRequest {
    let dialect = &Dialect::at(&format!("https://{host}/v1"));
    CacheRequest::of(&Outgoing { dialect, prompt_cache, prompt_cache_retention, ..test_outgoing(call) })
}

#[test]
fn what_is_sent_follows_from_the_address() {
    let asked = |keep: PromptCache, host: &str, model: &str| {
        let mut call = test_call();
        model.clone_into(&mut std::sync::Arc::make_mut(&mut call.head).model);
        let CacheRequest { key, mark, .. } = request(&call, host, keep, None);
        (key.is_some(), mark.is_some())
    };
    let (key, blocks, nothing) = ((true, false), (false, true), (false, false));
    let at = |host: &str, model: &str| asked(PromptCache::Auto, host, model);
    assert_eq!(at("api.openai.com", "gpt-5"), key);
    assert_eq!(at("EU.api.openai.com", "gpt-5"), key);
    assert_eq!(at("api.openai.com", "gpt-5.6-sol"), nothing);
    assert_eq!(asked(PromptCache::Key, "api.openai.com", "gpt-5.6"), key);
    assert_eq!(at("api.mistral.ai", "mistral-large"), key);
    assert_eq!(at("openrouter.ai", "anthropic/claude-sonnet-5"), blocks);
    assert_eq!(at("openrouter.ai", "~anthropic/claude-sonnet-latest"), blocks);
    for (host, model) in [
        ("openrouter.ai", "google/gemini-3-pro"),
        ("openrouter.ai", "openai/gpt-5"),
        ("127.0.0.1", "smollm2"),
        ("api.groq.com", "openai/gpt-oss-120b"),
        ("notapi.openai.com", "gpt-5"),
        ("api.openai.com.example.org", "gpt-5"),
        ("", ""),
    ] {
        assert_eq!(at(host, model), nothing, "{host} {model}");
    }
    assert_eq!(asked(PromptCache::Key, "127.0.0.1", "m"), key);
    assert_eq!(asked(PromptCache::Blocks, "gateway.example.org", "m"), blocks);
    assert_eq!(asked(PromptCache::Off, "api.openai.com", "gpt-5"), nothing);
}

#[test]
fn a_key_is_left_out_where_it_separates_what_threads_share() {
    for model in ["gpt-5.6", "gpt-5.6-sol", "gpt-5.10", "gpt-6", "gpt-6-mini", "gpt-6.1-sol", "gpt-10", "ft:gpt-6:a"] {
        assert!(is_separated_by_key(model), "{model}");
    }
    for model in ["gpt-5", "gpt-5-2025-08-07", "gpt-5.5-pro", "gpt-4.1", "gpt-4o", "gpt-oss-120b", "o3", "codex-9", ""]
    {
        assert!(!is_separated_by_key(model), "{model}");
    }
    let mut call = test_call();
    std::sync::Arc::make_mut(&mut call.head).model = "gpt-6".to_owned();
    let of = |keep| request(&call, "api.openai.com", keep, Some(CacheRetention::Day));
    assert_eq!(of(PromptCache::Auto), CacheRequest::default());
    assert!(of(PromptCache::Key).key.is_some());
}

#[test]
fn a_key_is_of_a_role_in_a_thread_and_not_of_a_visit() {
    let call = test_call();
    let first = key(&call);
    assert!(first.len() <= KEY_MAX_BYTES && first.starts_with(call.site.thread.as_str()), "{first}");

    let mut later = test_call();
    later.site.visit = 9;
    later.site.lane = LanePath::trunk();
    later.conversation = std::sync::Arc::default();
    later.attempt = 2;
    assert_eq!(key(&later), first);

    let other_role = ModelCall { head_digest: Digest::sha256(b"another head"), ..test_call() };
    let mut other_thread = test_call();
    other_thread.site.thread = ThreadId::from_parts(3, 4);
    assert_ne!(key(&other_role), first);
    assert_ne!(key(&other_thread), first);
}

#[test]
fn a_way_that_a_protocol_does_not_have_stands_for_its_own() {
    let told = |name: &str, address: &str| {
        let dialect = protocol::named(name).unwrap().dialect(address);
        PromptCache::ALL.map(|keep| keep.in_force(&dialect))
    };
    let (key, marks, none) =
        ("a key for each role of a thread", "marks on blocks of content", "nothing is sent for it");
    assert_eq!(told("anthropic", "https://api.anthropic.com"), [marks, marks, marks, none]);
    assert_eq!(told("gemini", "https://generativelanguage.googleapis.com"), [none; 4]);
    assert_eq!(told("gemini", "https://openrouter.ai/api"), [none; 4]);
    assert_eq!(told("openai_responses", "https://api.x.ai/v1"), [key, key, key, none]);
    assert_eq!(told("openai_responses", "https://openrouter.ai/api/v1"), [none, key, none, none]);
    assert_eq!(told("openai_chat", "http://127.0.0.1:8080/v1"), [none, key, marks, none]);
    let anthropic = protocol::named("anthropic").unwrap().dialect("https://api.anthropic.com");
    let call = test_call();
    let asked = Outgoing { dialect: &anthropic, prompt_cache: PromptCache::Key, ..test_outgoing(&call) };
    assert!(CacheRequest::of(&asked).mark.is_some());
    assert!(PromptCache::Key.sends(CacheRetention::Hour, &anthropic));
    assert!(!PromptCache::Key.sends(CacheRetention::Day, &anthropic));
}

#[test]
fn a_time_is_sent_only_where_it_belongs() {
    let of = |keep, time| request(&test_call(), "127.0.0.1", keep, time);
    assert_eq!(of(PromptCache::Key, Some(CacheRetention::Day)).retention, Some(CacheRetention::Day));
    assert_eq!(of(PromptCache::Key, Some(CacheRetention::Hour)).retention, None);
    let ttl = |time| of(PromptCache::Blocks, time).mark.and_then(|mark| mark.ttl);
    assert_eq!((ttl(None), ttl(Some(CacheRetention::Hour)), ttl(Some(CacheRetention::Day))), (None, Some("1h"), None));
    assert_eq!(of(PromptCache::Off, Some(CacheRetention::Day)), CacheRequest::default());
    let sends = |keep: PromptCache, time, url| keep.sends(time, &Dialect::at(url));
    assert!(sends(PromptCache::Auto, CacheRetention::Day, "https://api.openai.com/v1"));
    assert!(sends(PromptCache::Auto, CacheRetention::Hour, "https://openrouter.ai/api/v1"));
    for (time, url) in [
        (CacheRetention::Hour, "https://api.openai.com/v1"),
        (CacheRetention::Day, "https://api.mistral.ai/v1"),
        (CacheRetention::Day, "http://127.0.0.1:8080/v1"),
        (CacheRetention::Day, "not an address"),
    ] {
        assert!(!sends(PromptCache::Auto, time, url), "{time:?} {url}");
    }
}

#[test]
fn every_word_is_the_one_that_is_stored() {
    for keep in PromptCache::ALL {
        assert_eq!(serde_json::to_value(keep).unwrap(), keep.word());
    }
    for time in CacheRetention::ALL {
        assert_eq!(serde_json::to_value(time).unwrap(), time.word());
    }
}
