use futures_util::FutureExt as _;

use super::*;

#[tokio::test]
async fn a_deadline_does_not_pass_while_a_person_is_waited_for() {
    let waits = Waits::default();
    let deadline = Deadline::of_step(Some(0)).without(&waits);
    let (first, second) = (waits.begin(), waits.begin());
    let passed = deadline.passed();
    tokio::pin!(passed);
    // A deadline without waits would have passed at the first poll.
    assert_eq!(passed.as_mut().now_or_never(), None);
    drop(first);
    assert_eq!(passed.as_mut().now_or_never(), None, "one still waits");
    drop(second);
    let waited = waits.total();
    assert_eq!(passed.await, deadline.fault());
    assert_eq!(waits.total(), waited, "what was waited for has ended");
}

fn fault(retry_after_ms: Option<u64>) -> Fault {
    Fault { retry_after_ms, ..Fault::new(Code::ProviderBusy, FaultClass::RateLimit, "busy") }
}

#[test]
fn pauses_double_within_their_jitter_and_never_pass_the_ceiling() {
    let retry = Retry { attempts: 9, backoff_ms: 1000, faults: Vec::new() };
    for (next, low, high) in [(1, 500, 1000), (2, 1000, 2000), (4, 4000, 8000), (40, 30_000, 60_000)] {
        assert_eq!(pause(&retry, next, &fault(None), 0).as_millis(), low);
        assert_eq!(pause(&retry, next, &fault(None), u128::MAX).as_millis(), high);
    }
}

#[test]
fn every_model_is_asked_as_often_as_the_fault_is_worth_it() {
    let retry = Retry { attempts: 3, backoff_ms: 0, faults: vec![FaultClass::RateLimit] };
    let refused = Fault::new(Code::RequestRefused, FaultClass::Refused, "no");
    let broken = Fault::new(Code::ContractBroken, FaultClass::Contract, "no form");
    assert_eq!([0, 2].map(|fallbacks| attempts_of(&fault(None), &retry, fallbacks)), [3, 9]);
    assert_eq!([0, 2].map(|fallbacks| attempts_of(&refused, &retry, fallbacks)), [1, 3]);
    assert_eq!([0, 2].map(|fallbacks| attempts_of(&broken, &retry, fallbacks)), [1, 1]);
}

#[test]
fn a_reply_that_is_too_large_is_not_asked_for_again() {
    let fault = Fault::new(Code::ReplyTooLarge, FaultClass::Refused, "the reply is longer than 8388608 bytes");
    assert!(!is_worth_another(&fault, &Retry::default()) && !is_worth_another_model(&fault));
    let refused = Fault { code: Code::RequestRefused, ..fault };
    assert!(!is_worth_another(&refused, &Retry::default()) && is_worth_another_model(&refused));
}

#[test]
fn what_a_provider_asks_for_is_clamped() {
    let retry = Retry::default();
    assert_eq!(pause(&retry, 1, &fault(Some(7_000)), 0), Duration::from_secs(7));
    assert_eq!(pause(&retry, 1, &fault(Some(86_400_000)), 0), MAX_PAUSE);
}
