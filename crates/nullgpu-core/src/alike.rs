//! What a rank exchanges with ranks that are not there, as if all were alike: between the beginning and the end of a group of NCCL's calls,
//! each of the others sends this rank what this rank sends itself, or all of them. PyTorch 2.15 gathers by a group of broadcasts, one of each
//! rank's.

use std::cell::RefCell;

use crate::copies;

#[derive(Default)]
struct Group {
    /// Groups lie in one another.
    depth: u32,
    /// This rank.
    rank: i32,
    /// To which rank, and what, if that is known.
    sent: Vec<(i32, Option<Vec<u8>>)>,
    /// Where to, and how much.
    wanted: Vec<(usize, usize)>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

impl Group {
    /// What each of the others sends to this rank.
    fn given(&self) -> Option<&[u8]> {
        let to_itself = self.sent.iter().find(|(to, _)| *to == self.rank);
        let (_, first) = to_itself.or_else(|| {
            let first = self.sent.first()?;
            self.sent.iter().all(|(_, bytes)| *bytes == first.1).then_some(first)
        })?;
        first.as_deref()
    }
}

/// A group begins.
pub(crate) fn begin() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// A group ends.
pub(crate) fn end() {
    let group = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.saturating_sub(1);
        if group.depth == 0 { std::mem::take(group) } else { Group::default() }
    });
    if let Some(given) = group.given() {
        for &(to, _) in group.wanted.iter().filter(|(_, size)| *size == given.len()) {
            copies::note(to, given.len(), Some(given.to_vec()));
        }
    }
}

/// This rank sends.
pub(crate) fn sends(rank: i32, to: i32, bytes: Option<Vec<u8>>) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.rank = rank;
            group.sent.push((to, bytes));
        }
    });
}

/// This rank receives.
pub(crate) fn receives(to: usize, size: usize) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.wanted.push((to, size));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(sent: &[(i32, &[u8])]) -> Option<Vec<u8>> {
        let sent = sent.iter().map(|&(to, bytes)| (to, Some(bytes.to_vec()))).collect();
        Group { rank: 1, sent, ..Group::default() }.given().map(<[u8]>::to_vec)
    }

    #[test]
    fn each_of_the_others_sends_what_this_rank_sends_itself_or_all() {
        assert_eq!(given(&[(0, b"a"), (1, b"b"), (2, b"c")]), Some(b"b".to_vec()), "an exchange of parts");
        assert_eq!(given(&[(0, b"a"), (2, b"a")]), Some(b"a".to_vec()), "a gathering");
        assert_eq!(given(&[(0, b"a"), (2, b"c")]), None, "the part of this rank is unknown");
        assert_eq!(given(&[]), None);
    }
}
