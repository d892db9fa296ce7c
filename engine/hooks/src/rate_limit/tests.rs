use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use rondo_core::hook::{HookResources, KeySpace};
use rondo_core::store::MemoryStore;
use rondo_protocol::call::CallKind;
use rondo_protocol::workflow::OnHookError;

use super::*;
use crate::tests::fixture::{calls, node, send};

fn used(settings: &[(&str, u64)]) -> HookUse {
    let settings = settings.iter().map(|(name, count)| ((*name).to_owned(), Value::from(*count))).collect();
    HookUse { at: CallKind::Model, on_error: OnHookError::Bypass, roles: None, settings, kind: "rate_limit".to_owned() }
}

fn built(kind: &RateLimit, settings: &[(&str, u64)]) -> Result<Arc<dyn Hook>, String> {
    let space = KeySpace::new(Arc::new(MemoryStore::default()), kind.name());
    kind.build(&BuildContext {
        of_kind: &std::collections::BTreeSet::new(),
        altered: &std::collections::BTreeSet::new(),
        hook: &used(settings),
        roles: &BTreeMap::new(),
        flags: &BTreeMap::new(),
        resources: &HookResources::default(),
        space: &space,
        is_replay: false,
    })
}

fn model_call(time_left: Duration) -> Call {
    let call = calls().into_iter().find_map(|call| if let Call::Model(call) = call { Some(call) } else { None });
    Call::Model(ModelCall { time_left, ..call.unwrap() })
}

#[test]
fn it_needs_a_number_that_can_be_kept() {
    let kind = RateLimit::default();
    let refused = |settings: &[(&str, u64)]| built(&kind, settings).err().unwrap();
    assert_eq!(refused(&[]), "it needs `concurrent` or `per_minute`, or both");
    assert_eq!(refused(&[("concurrent", 0)]), "`concurrent` must be an integer from 1");
    assert_eq!(refused(&[("per_minute", 100_001)]), "`per_minute` is at most 100000");
    assert!(built(&kind, &[("concurrent", 1)]).is_ok());
}

#[tokio::test]
async fn a_call_that_cannot_wait_so_long_fails_at_once_as_if_the_provider_were_busy() {
    let kind = RateLimit::default();
    let hook = node("rate_limit", built(&kind, &[("per_minute", 2)]).unwrap(), OnHookError::Bypass);
    let ask = |time_left| send(vec![Arc::clone(&hook)], model_call(time_left), None);
    for _ in 0..2 {
        assert!(ask(Duration::from_secs(1)).await.result.is_ok());
    }
    let outcome = ask(Duration::from_secs(1)).await;
    let fault = outcome.result.err().unwrap();
    assert_eq!((fault.code, fault.class, outcome.port_reached), (Code::ProviderBusy, FaultClass::RateLimit, 0));
    assert!(fault.message.starts_with("the hook rate_limit lets 2 a minute through to the model m;"), "{fault}");
    assert!(fault.retry_after_ms.unwrap() > 50_000);
    // The place was given up, and nothing of the call is left.
    let site = model_call(Duration::ZERO).site().clone();
    let figures = hook.hook.visited(&site, &hook.context).await.unwrap();
    assert_eq!((figures.get("calls"), figures.get("waited")), (Some(&Value::from(3_u64)), Some(&Value::from(0_u64))));
    assert_eq!(hook.hook.visited(&site, &hook.context).await, None);
}

#[tokio::test]
async fn the_lowest_number_of_those_that_hold_a_subject_is_in_force() {
    let kind = RateLimit::default();
    let many = node("many", built(&kind, &[("per_minute", 100)]).unwrap(), OnHookError::Bypass);
    let few = node("few", built(&kind, &[("per_minute", 1)]).unwrap(), OnHookError::Bypass);
    let now = || model_call(Duration::ZERO);
    assert!(send(vec![Arc::clone(&few)], now(), None).await.result.is_ok());
    assert!(send(vec![Arc::clone(&many)], now(), None).await.result.is_err());
    // What nobody asks for any more holds no longer; what was let through is still known.
    drop(few);
    assert!(send(vec![Arc::clone(&many)], now(), None).await.result.is_ok());
    // A tool is another subject, and a turn none.
    let tight = node("tight", built(&RateLimit::default(), &[("per_minute", 1)]).unwrap(), OnHookError::Bypass);
    for call in calls() {
        assert!(send(vec![Arc::clone(&tight)], call, None).await.result.is_ok());
    }
    assert!(send(vec![Arc::clone(&tight)], calls().remove(0), None).await.result.is_ok());
}

const SHORT: Duration = Duration::from_millis(40);

fn at_once(most: u64) -> Rate {
    Rate { concurrent: Some(most), per_minute: None }
}

#[tokio::test]
async fn one_at_once_is_one_at_once_and_everybody_gets_through_in_order() {
    let limiter = Limiter::new(MINUTE);
    let held_on = limiter.hold(at_once(1));
    let (inside, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let tasks = (0..20).map(|number| {
        let (limiter, inside, order) = (Arc::clone(&limiter), Arc::clone(&inside), Arc::clone(&order));
        async move {
            let _pass = limiter.enter(Duration::MAX).await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            order.lock().push(number);
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
        }
    });
    futures_util::future::join_all(tasks).await;
    assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
    assert!(!limiter.is_idle(Instant::now()));
    drop(held_on);
    assert!(limiter.is_idle(Instant::now()));
}

#[tokio::test]
async fn one_that_gives_up_frees_its_place() {
    let limiter = Limiter::new(MINUTE);
    let _held_on = limiter.hold(at_once(1));
    let pass = limiter.enter(Duration::MAX).await.unwrap();
    assert_eq!(limiter.enter(SHORT).await.unwrap_err(), TooLong(SHORT));
    let mut first = Box::pin(limiter.enter(Duration::MAX));
    let mut second = Box::pin(limiter.enter(Duration::MAX));
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(pass);
    let pass = second.await.unwrap();
    // Beyond the number, where a call must go on all the same.
    let beyond = limiter.enter_beyond();
    drop(pass);
    assert!(limiter.enter_within(SHORT).await.is_none());
    drop(beyond);
    assert!(limiter.enter_within(MINUTE).await.is_some());
}

#[tokio::test]
async fn a_minute_after_a_call_there_is_room_again() {
    let limiter = Limiter::new(SHORT);
    let _held_on = limiter.hold(Rate { concurrent: None, per_minute: Some(2) });
    let mut starts = Vec::new();
    for _ in 0..7 {
        drop(limiter.enter(Duration::MAX).await.unwrap());
        starts.push(Instant::now());
    }
    // A start is noted a moment before it is seen here.
    let close = starts.windows(3).any(|three| three[2] - three[0] + Duration::from_millis(5) < SHORT);
    assert!(!close, "{starts:?}");
}

proptest! {
    /// Whatever the numbers, the line and what has been let through: nobody is told to wait for less than they must,
    /// and those in line are told what comes of the law when each continues as soon as it may.
    #[test]
    fn what_is_told_of_the_wait_is_when_the_call_goes_on(
        most in 1_u64..6,
        before in proptest::collection::vec(0_u64..60, 0..8),
        line in 1_usize..20,
    ) {
        let limiter = Limiter::new(MINUTE);
        let _held_on = limiter.hold(Rate { concurrent: None, per_minute: Some(most) });
        let begun = Instant::now();
        let mut before = before;
        before.sort_unstable();
        for second in before {
            limiter::tests::begin(&limiter, begun + Duration::from_secs(second));
        }
        let now = begun + Duration::from_mins(1);
        let told = limiter::tests::told(&limiter, line, now);
        let went = limiter::tests::went(&limiter, line, now);
        prop_assert_eq!(&told, &went);
        let size = usize::try_from(most).unwrap();
        prop_assert!(went.windows(size + 1).all(|some| some[size] - some[0] >= MINUTE));
    }
}
