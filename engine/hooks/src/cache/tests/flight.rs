//! Equal askers at one time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const LONG: Duration = Duration::from_mins(1);

async fn ask(cache: &Cache<Text>, n: u8, wait: Duration) -> SharedLookup<Text> {
    cache.get_shared(&key(n), || 1000, wait).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_equal_askers_one_makes_the_entry() {
    let cache = cache(&Arc::new(Memory::default()), WIDE);
    let made = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (cache, made) = (cache.clone(), Arc::clone(&made));
            tokio::spawn(async move {
                match ask(&cache, 1, LONG).await {
                    Ok(found) => assert_eq!(found.0, "made"),
                    Err((_, guard)) => {
                        assert!(guard.is_some());
                        made.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        insert(&cache, 1, "made").await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(made.load(Ordering::Relaxed), 1);
    assert_eq!(cache.keys_in_flight(), 0);
}

#[tokio::test]
async fn when_the_first_gives_up_one_of_the_others_goes_on() {
    let cache = cache(&Arc::new(Memory::default()), WIDE);
    let Err((Miss::Absent, Some(first))) = ask(&cache, 1, LONG).await else { panic!("not the first") };
    let going_on = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let (cache, going_on) = (cache.clone(), Arc::clone(&going_on));
            tokio::spawn(async move {
                let asked = ask(&cache, 1, LONG).await;
                going_on.fetch_add(1, Ordering::Relaxed);
                match asked {
                    Err((_, Some(guard))) => {
                        // Nobody else continues while this one does, however often they are given the chance.
                        for _ in 0..50 {
                            tokio::task::yield_now().await;
                        }
                        assert_eq!(going_on.load(Ordering::Relaxed), 1);
                        insert(&cache, 1, "second").await;
                        drop(guard);
                    }
                    Err((_, None)) => panic!("alone"),
                    Ok(found) => assert_eq!(found.0, "second"),
                }
            })
        })
        .collect();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(going_on.load(Ordering::Relaxed), 0);
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(cache.keys_in_flight(), 0);
}

#[tokio::test]
async fn whoever_is_cancelled_the_turn_goes_on() {
    let cache = cache(&Arc::new(Memory::default()), WIDE);
    let Err((_, Some(first))) = ask(&cache, 1, LONG).await else { panic!("not the first") };
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { matches!(ask(&cache, 1, LONG).await, Err((_, Some(_)))) })
        })
        .collect();
    tokio::task::yield_now().await;
    // The next in line is cancelled in the moment in which the turn is its own.
    drop(first);
    tasks[0].abort();
    let mut first_after = 0;
    for task in tasks {
        first_after += u64::from(task.await.unwrap_or(false));
    }
    assert!(first_after >= 3, "{first_after}");
    assert_eq!(cache.keys_in_flight(), 0);
}

#[tokio::test]
async fn waiting_ends_with_the_time_given() {
    let cache = cache(&Arc::new(Memory::default()), WIDE);
    let Err((_, Some(_first))) = ask(&cache, 1, LONG).await else { panic!("not the first") };
    assert!(matches!(ask(&cache, 1, Duration::from_millis(5)).await, Err((Miss::Absent, None))));
    assert!(matches!(ask(&cache, 2, LONG).await, Err((Miss::Absent, Some(_)))));
}

#[tokio::test]
async fn an_entry_kept_by_somebody_else_wakes_all_who_wait() {
    let cache = cache(&Arc::new(Memory::default()), WIDE);
    let Err((_, Some(_first))) = ask(&cache, 1, LONG).await else { panic!("not the first") };
    let waiting = ask(&cache, 1, LONG);
    let (asked, _) = tokio::join!(waiting, insert(&cache, 1, "from elsewhere"));
    assert!(asked.is_ok());
}

#[tokio::test]
async fn keys_in_flight_are_bounded() {
    let cache = cache(&Arc::new(Memory::default()), WIDE);
    let mut guards = Vec::new();
    for n in 0..1100_u32 {
        let mut key = key(0);
        key.0[..4].copy_from_slice(&n.to_be_bytes());
        if let Err((_, Some(guard))) = cache.get_shared(&key, || 0, LONG).await {
            guards.push(guard);
        }
    }
    assert_eq!((guards.len(), cache.keys_in_flight()), (1024, 1024));
    guards.clear();
    assert_eq!(cache.keys_in_flight(), 0);
}
