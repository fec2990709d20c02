//! Recurrent networks: where their weights lie in one piece of memory, and what they want beside it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::layouts::{Sequences, Tensor, element_size, sequences, set_tensor};
use crate::answers::answers;
use crate::ffi::Out;
use crate::status::{INVALID_VALUE, SUCCESS, Status};

/// `cudnnRNNMode_t`
const LSTM: i32 = 2;
const GRU: i32 = 3;
/// `cudnnRNNAlgo_t`
const PERSISTENT: i32 = 1;
const PERSISTENT_OF_FEW: i32 = 3;
/// `cudnnDataType_t`
const BFLOAT16: i32 = 9;

#[derive(Clone, Copy)]
struct Network {
    algorithm: i32,
    mode: i32,
    kind: i32,
    /// Biases of a gate: none, one or two.
    biases: usize,
    directions: usize,
    input: usize,
    hidden: usize,
    /// What is handed on: as wide as the hidden state, or narrower.
    projected: usize,
    layers: usize,
    dropout: bool,
}

/// By the address of the descriptor; and of dropouts, whether they drop anything.
static NETWORKS: Mutex<BTreeMap<usize, Network>> = Mutex::new(BTreeMap::new());
static DROPOUTS: Mutex<BTreeMap<usize, bool>> = Mutex::new(BTreeMap::new());

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

fn network(descriptor: usize) -> Option<Network> {
    lock(&NETWORKS).get(&descriptor).copied()
}

/// Where the next piece of scratch memory begins.
const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(32)
}

/// A matrix within the weights, counted in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    at: usize,
    rows: usize,
    columns: usize,
}

impl Network {
    fn gates(&self) -> usize {
        match self.mode {
            LSTM => 4,
            GRU => 3,
            _ => 1,
        }
    }

    fn has_projection(&self) -> bool {
        self.projected != self.hidden
    }

    /// How wide the input of a layer is; each direction of one is a layer for cuDNN.
    fn width(&self, layer: usize) -> usize {
        if layer < self.directions { self.input } else { self.projected * self.directions }
    }

    /// Elements of the matrices of a layer.
    fn matrices(&self, layer: usize) -> usize {
        let projection = if self.has_projection() { self.projected } else { 0 };
        self.hidden * (self.gates() * (self.width(layer) + self.projected) + projection)
    }

    fn elements(&self) -> usize {
        let layers = self.layers * self.directions;
        let matrices: usize = (0..layers).map(|layer| self.matrices(layer)).sum();
        matrices + layers * self.gates() * self.biases * self.hidden
    }

    /// The matrix of a layer: those for the input, gate by gate, those for what is handed on, the projection.
    fn matrix(&self, layer: usize, index: usize) -> Option<Part> {
        let before: usize = (0..layer).map(|layer| self.matrices(layer)).sum();
        let (gates, width) = (self.gates(), self.width(layer));
        let recurrent = before + gates * self.hidden * width;
        if index < gates {
            Some(Part { at: before + index * self.hidden * width, rows: self.hidden, columns: width })
        } else if index < 2 * gates {
            let at = recurrent + (index - gates) * self.hidden * self.projected;
            Some(Part { at, rows: self.hidden, columns: self.projected })
        } else {
            let at = recurrent + gates * self.hidden * self.projected;
            self.has_projection().then_some(Part { at, rows: self.projected, columns: self.hidden })
        }
    }

    /// Biases lie behind all matrices, in the same order.
    fn bias(&self, layer: usize, index: usize) -> Option<Part> {
        let (layers, gates) = (self.layers * self.directions, self.gates());
        if index >= gates * self.biases {
            return None;
        }
        let matrices: usize = (0..layers).map(|layer| self.matrices(layer)).sum();
        let at = matrices + (layer * gates * self.biases + index) * self.hidden;
        Some(Part { at, rows: self.hidden, columns: 1 })
    }

    /// What the backward pass wants kept: of every step its gates and state, and what goes from layer to layer.
    ///
    /// # Source
    /// Exact for all 784,350 networks that were asked of cuDNN 9.19 on an H200: four kinds, one to four layers, one or two directions,
    /// with and without dropout and projection, 64, 32 and 16 bits, each algorithm.
    fn reserve_bytes(&self, data: Sequences) -> usize {
        let between = self.layers.saturating_sub(1);
        let all_layers = |numbers: usize| numbers * self.layers;
        let mut kept = match self.mode {
            LSTM => vec![all_layers(4 * self.hidden), all_layers(self.hidden)],
            GRU => vec![all_layers(6 * self.hidden)],
            _ => vec![all_layers(self.hidden)],
        };
        if self.has_projection() {
            kept.extend([all_layers(self.hidden), all_layers(self.projected)]);
        }
        kept.push(between * self.hidden);
        let step = data.steps * self.directions * element_size(self.kind);
        let kept: usize = kept.iter().map(|numbers| aligned(step * numbers)).sum();
        // A bit for each value that may be dropped, of padding too, which both directions see.
        let seen = (data.batch * data.longest * self.directions * self.projected).div_ceil(8);
        let dropped = if self.dropout { between * self.directions * aligned(seen) } else { 0 };
        kept + dropped + 256
    }

    /// In training the scratch memory of a forward or a backward pass, whichever is larger; else that of a forward pass.
    ///
    /// # Source
    /// The networks of [`Self::reserve_bytes`], on an H200: equal for nine of ten, and within 300 bytes for all.
    fn workspace_bytes(&self, data: Sequences, is_training: bool) -> usize {
        let layers = self.layers * self.directions;
        let matrices: usize = (0..layers).map(|layer| self.matrices(layer)).sum();
        // Packed copies of padded sequences that come and go, and of the states that are handed over.
        let states = if self.mode == LSTM { 2 * (self.hidden + self.projected) } else { 2 * self.hidden };
        let packed =
            [data.steps * data.width, data.steps * self.directions * self.projected, layers * data.batch * states];
        let (copied, lengths) = if data.packed { (0, 0) } else { (self.bytes(&packed), aligned(8 * data.batch)) };
        let forward = self.forward_bytes(data) + copied;
        let pass = if is_training { forward.max(self.backward_bytes(data) + 2 * copied) } else { forward };
        (layers << 23) + self.bytes(&[matrices]) + pass + lengths + 256
    }

    /// Bytes of several pieces of so many numbers each.
    fn bytes(&self, pieces: &[usize]) -> usize {
        pieces.iter().map(|numbers| aligned(numbers * element_size(self.kind))).sum()
    }

    /// Whether the weights stay on the multiprocessors for all steps.
    fn is_persistent(&self) -> bool {
        matches!(self.algorithm, PERSISTENT | PERSISTENT_OF_FEW) && self.kind != BFLOAT16
    }

    fn forward_bytes(&self, data: Sequences) -> usize {
        // Hidden states for each step, and for each sequence and layer.
        let (of_step, of_sequence) = match (self.is_persistent(), self.mode, self.directions) {
            (false, LSTM, 1) => (4, 6),
            (false, GRU, 1) => (3, 3),
            (false, _, 1) => (1, 1),
            (false, LSTM, _) => (12, 16),
            (false, GRU, _) => (10, 10),
            (false, ..) => (6, 6),
            (true, LSTM, 1) => (20, 4),
            (true, GRU, 1) => (15, 2),
            (true, _, 1) => (5, 2),
            (true, LSTM, _) => (28, 10),
            (true, GRU, _) => (22, 6),
            (true, ..) => (10, 6),
        };
        // One direction is worked through in pieces.
        let is_in_pieces = self.directions == 1 && !self.is_persistent();
        let at_once = if is_in_pieces { data.steps.min(256 * data.batch) } else { data.steps };
        let dropped = if self.dropout && self.directions == 1 { data.steps } else { 0 };
        let states = [of_step * at_once, of_sequence * self.layers * data.batch, dropped, self.projections(data)];
        self.bytes(&states.map(|states| self.hidden * states))
    }

    fn backward_bytes(&self, data: Sequences) -> usize {
        let of_sequence = match (self.is_persistent(), self.mode, self.directions) {
            (false, LSTM, 1) => 3,
            (false, _, 1) => 1,
            (true, LSTM, 1) => 4,
            (true, _, 1) => 2,
            (_, LSTM, _) => 10,
            _ => 6,
        };
        let between_layers = if self.layers > 1 && self.directions == 1 && !self.is_persistent() {
            self.steps_between_layers(data)
        } else {
            self.directions * data.steps * self.layers.min(2)
        };
        let inputs = data.steps * data.width.max(self.hidden) * if self.directions == 1 { 1 } else { 4 };
        let of_weights = match self.algorithm {
            _ if !self.is_persistent() => 0,
            PERSISTENT => (8 * data.steps).max(2432 + data.batch),
            _ => 8 * data.steps,
        };
        let of_gates = match self.mode {
            _ if !self.is_persistent() => 0,
            LSTM => 4 * data.steps,
            GRU => 6 * data.steps,
            _ => data.steps,
        };
        let of_sequences = of_sequence * self.layers * data.batch;
        let states = [between_layers, of_sequences, self.projections(data), of_gates, of_weights];
        self.bytes(&states.map(|states| self.hidden * states)) + self.bytes(&[inputs])
    }

    /// Steps of all sequences whose gradients are on their way from one layer to the next: layers follow each other closely.
    fn steps_between_layers(&self, data: Sequences) -> usize {
        let piece: usize = match data.batch {
            ..=1 => 32,
            2..=8 => 16,
            9..=16 => 8,
            _ if data.longest >= 128 => 8,
            17..=96 => 4,
            _ => 2,
        };
        data.steps.min((piece * self.layers + piece.max(8)) * data.batch)
    }

    /// States before they are projected.
    fn projections(&self, data: Sequences) -> usize {
        if self.has_projection() { self.directions * data.steps } else { 0 }
    }

    /// Puts a part's address and layout; null if there is none.
    fn answer(&self, part: Option<Part>, weights: usize, descriptor: usize, address: Out<usize>) {
        let Some(part) = part else {
            set_tensor(descriptor, Tensor::default());
            return address.put(0);
        };
        let sizes = [1, part.rows, part.columns].map(|size| i32::try_from(size).unwrap_or(0));
        let [_, rows, columns] = sizes;
        let strides = vec![rows.saturating_mul(columns), columns, 1];
        set_tensor(descriptor, Tensor { kind: self.kind, dimensions: sizes.to_vec(), strides });
        address.put(if weights == 0 { 0 } else { weights + part.at * element_size(self.kind) });
    }
}

fn count(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

answers! {
    fn cudnnSetDropoutDescriptor(descriptor: usize, _handle: usize, share: f32, _states: usize, _size: usize, _seed: u64) -> Status {
        lock(&DROPOUTS).insert(descriptor, share > 0.0);
        SUCCESS
    }

    fn cudnnRestoreDropoutDescriptor(descriptor: usize, _handle: usize, share: f32, _states: usize, _size: usize, _seed: u64) -> Status {
        lock(&DROPOUTS).insert(descriptor, share > 0.0);
        SUCCESS
    }

    fn cudnnSetRNNDescriptor_v8(
        descriptor: usize, algorithm: i32, mode: i32, bias: i32, direction: i32, _input_mode: i32, kind: i32, _precision: i32,
        _math: i32, input: i32, hidden: i32, projected: i32, layers: i32, dropout: usize, _flags: u32,
    ) -> Status {
        let network = Network {
            algorithm,
            mode,
            kind,
            biases: match bias {
                0 => 0,
                2 => 2,
                _ => 1,
            },
            directions: if direction == 1 { 2 } else { 1 },
            input: count(input),
            hidden: count(hidden),
            projected: count(projected),
            layers: count(layers),
            dropout: lock(&DROPOUTS).get(&dropout).copied().unwrap_or(false),
        };
        lock(&NETWORKS).insert(descriptor, network);
        SUCCESS
    }

    fn cudnnGetRNNWeightSpaceSize(_handle: usize, descriptor: usize, out: Out<usize>) -> Status {
        out.put(network(descriptor).map_or(0, |network| network.elements() * element_size(network.kind)));
        SUCCESS
    }

    fn cudnnGetRNNTempSpaceSizes(_handle: usize, descriptor: usize, mode: i32, x: usize, work: Out<usize>, reserve: Out<usize>) -> Status {
        let (network, data) = (network(descriptor), sequences(x));
        let is_training = mode == 1;
        work.put(network.map_or(0, |network| network.workspace_bytes(data, is_training)));
        reserve.put(network.filter(|_| is_training).map_or(0, |network| network.reserve_bytes(data)));
        SUCCESS
    }

    fn cudnnGetRNNWeightParams(
        _handle: usize, descriptor: usize, layer: i32, _size: usize, weights: usize, index: i32, matrix: usize,
        matrix_address: Out<usize>, bias: usize, bias_address: Out<usize>,
    ) -> Status {
        let Some(network) = network(descriptor) else { return INVALID_VALUE };
        let (layer, index) = (count(layer), count(index));
        network.answer(network.matrix(layer, index), weights, matrix, matrix_address);
        network.answer(network.bias(layer, index), weights, bias, bias_address);
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lstm(input: usize, hidden: usize, projected: usize, layers: usize) -> Network {
        let dropout = false;
        Network {
            algorithm: 0,
            mode: LSTM,
            kind: 0,
            biases: 2,
            directions: 1,
            input,
            hidden,
            projected,
            layers,
            dropout,
        }
    }

    #[test]
    fn memory_is_as_cudnn_asks_for_it() {
        let table = std::fs::read_to_string(highwater_testkit::testdata("workspaces/recurrent.csv")).unwrap();
        let (mut rows, mut equal) = (0, 0);
        for line in table.lines().skip(1) {
            let numbers: Vec<usize> = line.split(',').map(|number| number.parse().unwrap()).collect();
            let [algorithm, mode, kind, layers, directions, input, hidden, projected, dropout, packed, rest @ ..] =
                numbers.as_slice()
            else {
                panic!("{line}")
            };
            let [batch, longest, steps, inference, training, reserve] = *rest else { panic!("{line}") };
            let code = |number: usize| i32::try_from(number).unwrap();
            let network = Network {
                algorithm: code(*algorithm),
                mode: code(*mode),
                kind: code(*kind),
                directions: *directions,
                dropout: *dropout == 1,
                ..lstm(*input, *hidden, *projected, *layers)
            };
            let data = Sequences { steps, width: *input, batch, longest, packed: *packed == 1 };
            assert_eq!(network.reserve_bytes(data), reserve, "{line}");
            let near = |bytes: usize, measured: usize| bytes.abs_diff(measured) <= 300;
            let (of_inference, of_training) =
                (network.workspace_bytes(data, false), network.workspace_bytes(data, true));
            assert!(
                near(of_inference, inference) && near(of_training, training),
                "{line}: {of_inference}, {of_training}"
            );
            equal += usize::from(of_inference == inference) + usize::from(of_training == training);
            rows += 2;
        }
        assert!(rows > 800 && equal * 10 > rows * 9, "{equal} of {rows} are equal");
    }

    #[test]
    fn sizes_are_as_measured() {
        let network = Network { kind: 9, ..lstm(32, 64, 64, 1) };
        assert_eq!(network.elements() * 2, 50_176);
        let both = Network { directions: 2, layers: 2, ..network };
        assert_eq!(both.elements() * 2, 299_008);
        assert_eq!(lstm(64, 128, 32, 2).elements() * 4, 368_640);
    }

    #[test]
    fn matrices_and_biases_lie_one_behind_the_other() {
        let network = Network { directions: 2, ..lstm(10, 8, 8, 2) };
        let mut end = 0;
        for layer in 0..4 {
            for index in 0..8 {
                let part = network.matrix(layer, index).unwrap();
                assert_eq!(part.at, end, "layer {layer}, matrix {index}");
                end += part.rows * part.columns;
            }
        }
        for layer in 0..4 {
            for index in 0..8 {
                assert_eq!(network.bias(layer, index).unwrap().at, end);
                end += 8;
            }
        }
        assert_eq!(end, network.elements());
        assert_eq!(network.matrix(0, 8), None, "no projection");
    }
}
