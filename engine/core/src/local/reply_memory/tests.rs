use futures_util::FutureExt;

use super::*;

const MOST_BYTES: usize = 8 << 20;

fn grows(reservation: &mut Reservation, bytes: usize) -> bool {
    reservation.grow_to(bytes).now_or_never().is_some()
}

#[test]
fn ordinary_replies_never_wait() {
    let memory = ReplyMemory::default();
    let mut large = [memory.reservation(), memory.reservation()];
    assert!(grows(&mut large[0], MOST_BYTES));
    assert!(!grows(&mut large[1], MOST_BYTES));
    for mut ordinary in (0..1000).map(|_| memory.reservation()) {
        assert!(grows(&mut ordinary, FREE_BYTES));
    }
}

#[test]
fn replies_share_what_there_is_and_one_may_have_more() {
    let memory = ReplyMemory::default();
    let mut replies: Vec<_> = (0..100).map(|_| memory.reservation()).collect();
    let reserve = |replies: &mut Vec<Reservation>, bytes| -> Vec<bool> {
        replies.iter_mut().map(|reply| grows(reply, bytes)).collect()
    };
    let grown = reserve(&mut replies, FREE_BYTES + STEP_BYTES);
    let of_all = grown.iter().filter(|grown| **grown).count();
    assert_eq!(of_all, SHARED_BYTES / STEP_BYTES + 1);
    // Only the one that has the turn continues.
    let grown = reserve(&mut replies, MOST_BYTES);
    assert_eq!(grown.iter().filter(|grown| **grown).count(), 1);
}

#[tokio::test]
async fn however_many_wait_every_reply_ends() {
    let memory = ReplyMemory::default();
    let replies = (0..200).map(|number| {
        let memory = memory.clone();
        async move {
            let mut reservation = memory.reservation();
            for bytes in (0..=MOST_BYTES).step_by(STEP_BYTES / 3) {
                reservation.grow_to(bytes).await;
                tokio::task::yield_now().await;
            }
            // Some visits use it for a second reply.
            if number % 2 == 0 {
                reservation.release();
                reservation.grow_to(MOST_BYTES).await;
            }
        }
    });
    futures_util::future::join_all(replies).await;
}

#[test]
fn a_dropped_wait_takes_nothing() {
    let memory = ReplyMemory::default();
    let mut holder = memory.reservation();
    assert!(grows(&mut holder, MOST_BYTES));
    let mut other = memory.reservation();
    assert!(!grows(&mut other, MOST_BYTES));
    drop((holder, other));
    assert!(grows(&mut memory.reservation(), MOST_BYTES));
    assert_eq!((memory.steps.available_permits(), memory.turn.available_permits()), (SHARED_BYTES / STEP_BYTES, 1));
}
