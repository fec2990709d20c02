//! Which entries of the trace are wanted.

use std::ops::RangeInclusive;

use clap::Args;
use highwater_answers::frames;
use highwater_snapshot::{Action, Entry, EntryId, Snapshot, StackId};

use crate::error::Problem;
use crate::units::{parse_address, parse_bytes};

/// The filters of the command line: an entry is shown if it passes all of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters, which combine")]
pub(crate) struct FilterArgs {
    /// Entries with this address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    address: Option<u64>,
    /// With --address: also entries whose memory contains it
    #[arg(long, requires = "address")]
    covering: bool,
    /// Entries with one of these actions, such as alloc,oom
    #[arg(long, value_name = "ACTIONS", value_delimiter = ',')]
    action: Vec<String>,
    /// Entries of at least this size, such as 20MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value_t = 0, hide_default_value = true)]
    min_size: u64,
    /// Entries of at most this size
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value_t = u64::MAX, hide_default_value = true)]
    max_size: u64,
    /// Entries with this text in a frame of their stack, written as `file:line name`
    #[arg(long, value_name = "TEXT")]
    stack: Option<String>,
    /// Entries of the stream with this handle
    #[arg(long, value_name = "N", value_parser = parse_address)]
    stream: Option<u64>,
    /// Entries from this one on
    #[arg(long, value_name = "ENTRY", default_value_t = 0, hide_default_value = true)]
    from: u32,
    /// Entries up to this one, itself included
    #[arg(long, value_name = "ENTRY", default_value_t = u32::MAX, hide_default_value = true)]
    to: u32,
}

/// The filters, made ready for one snapshot.
pub(crate) struct Filter {
    place: Place,
    /// By code of the action; `None` where all are wanted.
    actions: Option<Vec<bool>>,
    sizes: RangeInclusive<u64>,
    /// By stack; `None` where all are wanted.
    stacks: Option<Vec<bool>>,
    /// By stream; `None` where all are wanted.
    streams: Option<Vec<bool>>,
    entries: RangeInclusive<u32>,
}

/// Where the memory of an entry must lie.
#[derive(Clone, Copy)]
enum Place {
    Anywhere,
    StartsAt(u64),
    Contains(u64),
}

impl Filter {
    /// Looks up what the filters name in the snapshot.
    ///
    /// # Errors
    /// If an action is neither PyTorch's nor in the snapshot.
    pub(crate) fn new(args: &FilterArgs, snapshot: &Snapshot) -> Result<Self, Problem> {
        let place = match (args.address, args.covering) {
            (None, _) => Place::Anywhere,
            (Some(address), false) => Place::StartsAt(address),
            (Some(address), true) => Place::Contains(address),
        };
        Ok(Self {
            place,
            actions: wanted_actions(&args.action, snapshot)?,
            sizes: args.min_size..=args.max_size,
            stacks: args.stack.as_deref().map(|text| wanted_stacks(text, snapshot)),
            streams: args.stream.map(|handle| snapshot.streams.iter().map(|&stream| stream == handle).collect()),
            entries: args.from..=args.to,
        })
    }

    /// Whether the entry passes every filter.
    pub(crate) fn accepts(&self, id: EntryId, entry: &Entry) -> bool {
        let among = |wanted: &Option<Vec<bool>>, row: usize| {
            wanted.as_ref().is_none_or(|wanted| wanted.get(row).copied().unwrap_or(false))
        };
        self.entries.contains(&id.get())
            && self.sizes.contains(&entry.size_bytes)
            && self.place.accepts(entry)
            && among(&self.actions, usize::from(entry.action.code()))
            && among(&self.streams, entry.stream.index())
            && among(&self.stacks, entry.stack.index())
    }
}

impl Place {
    fn accepts(self, entry: &Entry) -> bool {
        match self {
            Self::Anywhere => true,
            Self::StartsAt(address) => has_address(entry) && entry.address == address,
            Self::Contains(address) => {
                has_address(entry) && address.checked_sub(entry.address).is_some_and(|offset| offset < entry.size_bytes)
            }
        }
    }
}

/// The address of the other two is 0 for want of one.
fn has_address(entry: &Entry) -> bool {
    !matches!(entry.action, Action::OOM | Action::SNAPSHOT)
}

fn wanted_actions(names: &[String], snapshot: &Snapshot) -> Result<Option<Vec<bool>>, Problem> {
    if names.is_empty() {
        return Ok(None);
    }
    let in_file = snapshot.unknown_actions.iter().map(|&name| snapshot.text(name));
    let known: Vec<_> = Action::NAMES.into_iter().chain(in_file).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Problem::new(format!("`--action {unknown}` is not an action"))
            .hint(format!("the actions are {}", known.join(", "))));
    }
    Ok(Some(known.iter().map(|name| names.iter().any(|wanted| wanted == name)).collect()))
}

fn wanted_stacks(text: &str, snapshot: &Snapshot) -> Vec<bool> {
    let frames: Vec<_> =
        snapshot.frames.iter().map(|(_, frame)| frames::full(snapshot, frame).contains(text)).collect();
    let has_match =
        |(_, stack): (StackId, &[_])| stack.iter().any(|frame: &highwater_snapshot::FrameId| frames[frame.index()]);
    snapshot.stacks.iter().map(has_match).collect()
}
