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

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// The engines in a mode of the heuristics (`cudnnBackendHeurMode_t`), best first.
    Mode(i32),
    /// The engine of this number.
    Engine(i32),
}

/// What the installed cuDNN said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// At least one.
    Engines(Vec<Engine>),
    /// There is no such engine.
    Refused,
}

/// A graph of one convolution, as it is asked about: its descriptors may be gone by then.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    /// The kind of the operation.
    kind: i32,
    /// The numbers of a request behind the kind and the question.
    numbers: String,
    convolution: Convolution,
}

impl Graph {
    /// Nothing if there is nobody to be asked, or if the graph is another.
    pub(super) fn read(descriptors: &Descriptors, operations: &[u64]) -> Option<Self> {
        let [operation] = *operations else { return None };
        settings::get().engines.as_ref()?;
        let numbers = numbers(descriptors, operation)?;
        let convolution = Convolution::read(descriptors, operation)?;
        Some(Graph { kind: descriptors.kind(operation), numbers, convolution })
    }

    /// The answer, if there is one.
    pub(super) fn ask(&self, question: Question) -> Option<Answer> {
        let wanted = match question {
            Question::Mode(mode) => mode,
            Question::Engine(number) => !number,
        };
        let request = format!("{} {wanted}{}\n", self.kind, self.numbers);
        let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = client.known.get(&request) {
            return known.clone();
        }
        let answer = client.ask(&request).and_then(|answer| parse(&answer, &self.convolution));
        client.known.insert(request, answer.clone());
        answer
    }
}

/// What a request says of a convolution.
fn numbers(descriptors: &Descriptors, operation: u64) -> Option<String> {
    let operands = Operands::of(descriptors, operation)?;
    let rank = descriptors.words(operands.tensors[0], attribute::TENSOR_DIMENSIONS).count();
    let mut text = String::new();
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
    Some(text)
}

/// The connection of this process, and the answers so far.
struct Client {
    /// With the process that has made it: a child that a program forks makes one of its own.
    connection: Option<(u32, BufReader<UnixStream>)>,
    known: BTreeMap<String, Option<Answer>>,
    /// Nobody answers.
    closed: bool,
}

static CLIENT: Mutex<Client> = Mutex::new(Client { connection: None, known: BTreeMap::new(), closed: false });

impl Client {
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

/// An answer as it was written; nothing if it is none.
fn parse(answer: &str, convolution: &Convolution) -> Option<Answer> {
    if answer.trim() == "?" {
        return Some(Answer::Refused);
    }
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
    engines.filter(|engines| !engines.is_empty()).map(Answer::Engines)
}

#[cfg(test)]
mod tests {
    use super::super::convolution::tests::convolution;
    use super::*;

    #[test]
    fn engines_are_read_with_their_notes_and_nothing_else_is() {
        let layer = convolution(0, 0, [vec![1, 8, 8, 8], vec![8, 8, 3, 3], vec![1, 8, 8, 8]], vec![1, 1], false);
        let engines = vec![Engine { workspace_bytes: 78_250_131, notes: 1 }, Engine::default()];
        assert_eq!(parse("78250131:1 0:0\n", &layer), Some(Answer::Engines(engines)));
        assert_eq!(parse("?\n", &layer), Some(Answer::Refused));
        for answer in ["\n", "12\n", "-1:0\n", "1:x\n", "5:1 ?\n", "1:2:3\n", "1:2:3:4:5\n"] {
            assert_eq!(parse(answer, &layer), None, "{answer:?}");
        }
    }
}
