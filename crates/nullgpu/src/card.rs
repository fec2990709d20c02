//! How the core is told which card to be.

use highwater_driver::Card;

/// A card as the core reads it, with another amount of memory if one is given.
pub(crate) fn settings(card: &Card, memory_bytes: Option<u64>) -> String {
    let (major, minor) = card.compute_capability;
    format!(
        "name={};memory={};cc={major}.{minor};sms={};l2={};bus={}",
        card.name,
        memory_bytes.unwrap_or(card.memory_bytes),
        card.multiprocessors,
        card.l2_bytes,
        card.bus_bits
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_written_as_the_core_reads_it() {
        let text = settings(Card::named("t4").unwrap(), Some(8 << 30));
        assert_eq!(text, "name=Tesla T4;memory=8589934592;cc=7.5;sms=40;l2=4194304;bus=256");
    }
}
