//! The installed cuDNN, which can say what engines it would take on a GPU that is not there. A process beside the program has it
//! loaded and answers over a socket (`highwater_dryrun/engines.py` in crates/nullgpu, which says how a request is written).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::convolution::{Convolution, DILATIONS, Operands, PADDINGS, STRIDES};
use super::graph::{Descriptors, Engine, attribute};
use super::stream_k::{self, Tiling};
use crate::settings;

const COMPUTE_TYPE: i32 = 100;
const POST_PADDINGS: i32 = 104;
const ALIGNMENT: i32 = 900;

/// Long enough to load cuDNN on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The engines for a graph, best first, in a mode of the heuristics (`cudnnBackendHeurMode_t`). Nothing if there is nobody to be asked, if
/// the graph is not one convolution, or if cuDNN does not say.
pub(super) fn engines(descriptors: &Descriptors, operations: &[u64], mode: i32) -> Option<Vec<Engine>> {
    let [operation] = operations else { return None };
    settings::get().engines.as_ref()?;
    let request = request(descriptors, *operation, mode)?;
    let mut desk = DESK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = desk.known.get(&request) {
        return known.clone();
    }
    let convolution = Convolution::read(descriptors, *operation)?;
    let answer = desk.ask(&request).and_then(|answer| parse(&answer, &convolution));
    desk.known.insert(request, answer.clone());
    answer
}

/// A convolution as a line of numbers.
fn request(descriptors: &Descriptors, operation: u64, mode: i32) -> Option<String> {
    let operands = Operands::of(descriptors, operation)?;
    let rank = descriptors.words(operands.tensors[0], attribute::TENSOR_DIMENSIONS).count();
    let mut text = format!("{} {mode}", descriptors.kind(operation));
    let mut add = |values: &[u64]| {
        for value in values {
            // Writing to a text does not fail.
            let _ = write!(text, " {}", value.cast_signed());
        }
    };
    let code = |handle, name| Some(u64::from(descriptors.code(handle, name)?.unsigned_abs()));
    let words = |handle, name, count| {
        let words: Vec<u64> = descriptors.words(handle, name).collect();
        (words.len() == count).then_some(words)
    };
    add(&[code(operands.convolution, COMPUTE_TYPE)?, u64::try_from(rank).ok()?]);
    for tensor in operands.tensors {
        add(&[code(tensor, attribute::TENSOR_TYPE)?]);
        add(&words(tensor, ALIGNMENT, 1)?);
        add(&words(tensor, attribute::TENSOR_DIMENSIONS, rank)?);
        add(&words(tensor, attribute::TENSOR_STRIDES, rank)?);
    }
    for name in [STRIDES, PADDINGS, POST_PADDINGS, DILATIONS] {
        add(&words(operands.convolution, name, rank.checked_sub(2)?)?);
    }
    text.push('\n');
    Some(text)
}

/// The connection of this process, and what it was answered.
struct Desk {
    /// With the process that has made it: a child that a program forks makes one of its own.
    connection: Option<(u32, BufReader<UnixStream>)>,
    known: BTreeMap<String, Option<Vec<Engine>>>,
    /// Nobody answers.
    closed: bool,
}

static DESK: Mutex<Desk> = Mutex::new(Desk { connection: None, known: BTreeMap::new(), closed: false });

impl Desk {
    fn ask(&mut self, request: &str) -> Option<String> {
        if self.closed {
            return None;
        }
        let answer = self.exchange(request);
        if answer.is_none() {
            self.closed = true;
            self.connection = None;
        }
        answer
    }

    fn exchange(&mut self, request: &str) -> Option<String> {
        let own = std::process::id();
        let mut connection = match self.connection.take() {
            Some((process, connection)) if process == own => connection,
            _ => connect()?,
        };
        connection.get_mut().write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        connection.read_line(&mut answer).ok()?;
        self.connection = Some((own, connection));
        answer.ends_with('\n').then_some(answer)
    }
}

fn connect() -> Option<BufReader<UnixStream>> {
    let stream = UnixStream::connect(settings::get().engines.as_ref()?).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(BufReader::new(stream))
}

/// The engines of an answer; nothing if there is none that fits.
fn parse(answer: &str, convolution: &Convolution) -> Option<Vec<Engine>> {
    let engine = |word: &str| {
        let numbers: Option<Vec<u64>> = word.split(':').map(|number| number.parse().ok()).collect();
        let (bytes, notes) = match numbers?[..] {
            [bytes, notes] => (bytes, notes),
            [bytes, notes, tile, workspace, rows, columns] => {
                let tiling = Tiling { tile, workspace, cluster: [rows, columns] };
                (stream_k::workspace_bytes(convolution, tiling, bytes), notes)
            }
            _ => return None,
        };
        Some(Engine { workspace_bytes: i64::try_from(bytes).ok()?, notes: u32::try_from(notes).ok()? })
    };
    let engines: Option<Vec<Engine>> = answer.split_whitespace().map(engine).collect();
    engines.filter(|engines| !engines.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::convolution::tests::convolution;
    use super::*;

    #[test]
    fn engines_are_read_with_their_notes_and_nothing_else_is() {
        let layer = convolution(0, 0, [vec![1, 8, 8, 8], vec![8, 8, 3, 3], vec![1, 8, 8, 8]], vec![1, 1], false);
        let engines = parse("78250131:1 0:0\n", &layer).unwrap();
        assert_eq!(engines[0], Engine { workspace_bytes: 78_250_131, notes: 1 });
        assert_eq!(engines[1], Engine::default());
        for answer in ["?\n", "\n", "12\n", "-1:0\n", "1:x\n", "5:1 ?\n", "1:2:3\n", "1:2:3:4:5\n"] {
            assert_eq!(parse(answer, &layer), None, "{answer:?}");
        }
    }
}
