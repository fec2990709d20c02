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

#[derive(Clone, Copy)]
struct Network {
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
    /// Exact for all 1,127 networks that were measured on an H200 with cuDNN 9.19: three kinds, one to three layers, one
    /// or two directions, 32 and 16 bits. With dropout it is within 128 bytes for 599 of 600 networks on an H100. With a
    /// projection, it was made to agree with 48 networks of one shape.
    fn reserve_bytes(&self, data: Sequences) -> usize {
        let kept = match self.mode {
            LSTM => 5,
            GRU => 6,
            _ => 1,
        };
        let size = element_size(self.kind);
        let layer = data.steps * self.directions * size;
        let between = self.layers.saturating_sub(1);
        let kept = if self.has_projection() {
            self.layers * (6 * self.hidden + 2 * self.projected) + between * 2 * self.projected
        } else {
            (kept * self.layers + between) * self.hidden
        };
        // A bit for each value that may be dropped, of padding too, which both directions see.
        let seen = data.batch * data.longest * self.directions * self.directions * self.projected;
        let dropped = if self.dropout { between * seen.div_ceil(8).next_multiple_of(16) } else { 0 };
        layer * kept + dropped + 256
    }

    /// # Source
    /// 3,679 networks on an H100 with cuDNN 9.19, one to four layers, 32 and 16 bits. Of LSTMs and GRUs over packed sequences it is equal for
    /// eight of ten and within 3 % for nine of ten, of those with more than 128 hidden numbers over padded ones for half and within 10 % for
    /// nine of ten: the others run by other engines. For the rest the fit is wrong by 5 % in the median and 16 % in the mean.
    fn workspace_bytes(&self, data: Sequences, is_training: bool) -> usize {
        // For each step, for each sequence, and for the states that are handed over.
        let (step, sequence, state) = match (self.mode, self.directions) {
            _ if self.has_projection() || !(data.packed || self.hidden > 128) => return self.workspace_fit(data),
            (LSTM, 1) => (4, 6, 4),
            (LSTM, _) => (12, 16, 4),
            (GRU, 1) => (3, 3, 2),
            (GRU, _) => (10, 10, 2),
            _ => return self.workspace_fit(data),
        };
        let layers = self.layers * self.directions;
        let is_dropping = is_training && self.dropout && self.layers > 1 && self.directions == 1;
        let step = step + usize::from(is_dropping);
        let mut numbers = self.hidden * (data.steps * step + data.batch * self.layers * sequence);
        if !data.packed {
            // Packed copies of the sequences that come and go; GRUs pack the inputs of a backward pass again.
            let inputs = data.width * if is_training && self.mode == GRU { 2 } else { 1 };
            numbers +=
                data.steps * (self.hidden * self.directions + inputs) + data.batch * layers * self.hidden * state;
        }
        let matrices: usize = (0..layers).map(|layer| self.matrices(layer)).sum();
        (layers << 23) + (matrices + numbers) * element_size(self.kind) + 256
    }

    /// 8.3 MiB for each layer and direction, the weights once more, and what grows with the steps.
    fn workspace_fit(&self, data: Sequences) -> usize {
        let (hidden, both) = match self.mode {
            LSTM => (50, 20),
            GRU => (31, 30),
            _ => (35, 23),
        };
        let size = element_size(self.kind);
        let hidden = if self.directions == 2 { hidden + both } else { hidden };
        let steps = data.steps * size * (self.hidden * self.directions * hidden + data.width * 43) / 10;
        8_720_000 * self.layers * self.directions + self.elements() * size + steps
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
        descriptor: usize, _algorithm: i32, mode: i32, bias: i32, direction: i32, _input_mode: i32, kind: i32, _precision: i32,
        _math: i32, input: i32, hidden: i32, projected: i32, layers: i32, dropout: usize, _flags: u32,
    ) -> Status {
        let network = Network {
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
        Network { mode: LSTM, kind: 0, biases: 2, directions: 1, input, hidden, projected, layers, dropout: false }
    }

    /// 32 padded sequences.
    fn steps(steps: usize, width: usize) -> Sequences {
        Sequences { steps, width, batch: 32, longest: steps / 32, packed: false }
    }

    #[test]
    fn scratch_memory_is_as_measured() {
        let of = |mode, kind, [input, hidden, layers, directions]: [usize; 4]| Network {
            mode,
            kind,
            directions,
            ..lstm(input, hidden, hidden, layers)
        };
        let data =
            |packed, [steps, batch, width]: [usize; 3]| Sequences { steps, batch, width, longest: steps, packed };
        for (network, data, measured) in [
            (of(LSTM, 0, [300, 384, 4, 2]), data(true, [24, 16, 300]), 119_996_672),
            (Network { dropout: true, ..of(GRU, 2, [768, 768, 3, 1]) }, data(true, [425, 16, 768]), 49_232_128),
            (of(LSTM, 0, [40, 300, 1, 2]), data(false, [500, 1, 40]), 28_550_304),
            (of(GRU, 0, [16, 1024, 2, 2]), data(false, [512, 2, 16]), 160_071_968),
        ] {
            let bytes = network.workspace_bytes(data, true);
            assert!(bytes.abs_diff(measured) < 1024, "{bytes} for {measured}");
        }
    }

    #[test]
    fn what_is_dropped_counts_padding() {
        let network = Network { mode: GRU, kind: 2, dropout: true, ..lstm(768, 768, 768, 3) };
        let data = Sequences { steps: 425, width: 768, batch: 16, longest: 35, packed: true };
        assert_eq!(network.reserve_bytes(data), 13_163_776);
    }

    #[test]
    fn sizes_are_as_measured() {
        let network = Network { kind: 9, ..lstm(32, 64, 64, 1) };
        assert_eq!(network.elements() * 2, 50_176);
        assert_eq!(network.reserve_bytes(steps(640, 32)), 409_856);
        let both = Network { directions: 2, layers: 2, ..network };
        assert_eq!(both.elements() * 2, 299_008);
        assert_eq!(both.reserve_bytes(steps(640, 32)), 1_802_496);
        assert_eq!(lstm(64, 128, 32, 2).elements() * 4, 368_640);
        assert_eq!(lstm(64, 128, 32, 2).reserve_bytes(steps(640, 64)), 4_423_936);
        let dropping = Network { dropout: true, ..lstm(100, 300, 300, 3) };
        assert_eq!(dropping.reserve_bytes(steps(640, 100)), 13_104_256);
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
