//! Work on several cores, which goes on where no thread can be had.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies a function to every item; results come in the order of the items, whatever the number of threads.
pub fn map<T: Sync, R: Send>(items: &[T], apply: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len());
    if threads <= 1 {
        return items.iter().map(apply).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let take_items = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            *results[index].lock().expect("no thread panics") = Some(apply(item));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where no more threads can be had, those that there are do it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, take_items);
        }
        take_items();
    });
    let results = results.into_iter().map(|result| result.into_inner().expect("no thread panics"));
    results.map(|result| result.expect("every item was taken")).collect()
}

/// Runs both at once, the first on a thread of its own.
pub fn both<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    let first = &first;
    std::thread::scope(|scope| {
        let begun = std::thread::Builder::new().spawn_scoped(scope, first);
        let second = second();
        let first = match begun {
            Ok(begun) => begun.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => first(),
        };
        (first, second)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_results_come() {
        let words = ["one", "two"].map(str::to_owned);
        assert_eq!(super::both(|| words[0].len(), || words[1].clone()), (3, "two".to_owned()));
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Vec<u32> = items.iter().map(|item| item * 2).collect();
        assert_eq!(super::map(&items, |item| item * 2), doubled);
        assert!(super::map(&[0u32; 0], |item| *item).is_empty());
    }
}
