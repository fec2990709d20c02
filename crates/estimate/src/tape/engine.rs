//! The backward pass: nodes run in the order of PyTorch's engine, gradients that meet are added as it adds them.

use std::collections::BinaryHeap;

use super::{Category, Edge, Grads, Tape, Tensor};

/// What a backward pass over a part of the graph leaves for others.
#[derive(Default)]
pub(crate) struct Arrived {
    /// What has arrived at the first node of the part.
    pub(crate) collected: Grads,
    /// What goes to nodes before the part.
    pub(crate) outside: Vec<(Edge, Tensor)>,
}

/// A backward pass that is under way.
struct Pass {
    /// Nodes below are none of this pass's.
    floor: usize,
    /// How many gradients each node still waits for.
    waiting: Vec<u32>,
    /// What has arrived at each node.
    arrived: Vec<Grads>,
    /// How many gradients each parameter still waits for, and what has arrived.
    parameters: Vec<(u32, Option<Tensor>)>,
    /// Nodes that have all of their gradients; the youngest runs first.
    ready: BinaryHeap<u32>,
    /// What goes to nodes below the floor.
    outside: Vec<(Edge, Tensor)>,
}

impl Tape {
    /// Runs the graph backward from an edge, down to the node `floor`.
    ///
    /// # Source
    /// PyTorch v2.11, `torch/csrc/autograd/engine.cpp`: among ready nodes the one with the highest sequence number runs;
    /// accumulating into a parameter goes before everything.
    pub(crate) fn run_backward(&mut self, from: Edge, grad: Tensor, floor: usize) -> Arrived {
        let Edge::Node(root, _) = from else { return Arrived::default() };
        let mut pass = self.prepare(root, floor);
        let part = self.part("backward");
        self.deliver(&mut pass, from, grad);
        pass.ready.push(root);
        while let Some(id) = pass.ready.pop() {
            self.run_node(&mut pass, id);
        }
        self.part(part);
        let collected = pass.arrived.into_iter().next().unwrap_or_default();
        Arrived { collected, outside: pass.outside }
    }

    /// Counts how many gradients each node that the root reaches waits for.
    fn prepare(&self, root: u32, floor: usize) -> Pass {
        let count = self.nodes.len() - floor;
        let mut pass = Pass {
            floor,
            waiting: vec![0; count],
            arrived: vec![Grads::new(); count],
            parameters: vec![(0, None); self.parameters.len()],
            ready: BinaryHeap::new(),
            outside: Vec::new(),
        };
        let mut seen = vec![false; count];
        let mut stack = vec![root as usize - floor];
        seen[root as usize - floor] = true;
        while let Some(at) = stack.pop() {
            for edge in &self.nodes[at + floor].edges {
                match *edge {
                    Edge::Nowhere => {}
                    Edge::Parameter(id) => pass.parameters[id as usize].0 += 1,
                    Edge::Node(id, _) if (id as usize) < floor => {}
                    Edge::Node(id, _) => {
                        let next = id as usize - floor;
                        pass.waiting[next] += 1;
                        if !std::mem::replace(&mut seen[next], true) {
                            stack.push(next);
                        }
                    }
                }
            }
        }
        pass
    }

    fn run_node(&mut self, pass: &mut Pass, id: u32) {
        let at = id as usize;
        let Some(backward) = self.nodes[at].backward.take() else { return };
        let edges = std::mem::take(&mut self.nodes[at].edges);
        let mut grads = std::mem::take(&mut pass.arrived[at - pass.floor]);
        grads.resize(self.nodes[at].outputs.len(), None);
        let mut results = backward(self, grads);
        results.resize(edges.len(), None);
        for (edge, result) in edges.iter().zip(results) {
            if let Some(grad) = result {
                self.deliver(pass, *edge, grad);
            }
            self.count_down(pass, *edge);
        }
    }

    /// Adds a gradient to what has arrived where the edge leads.
    fn deliver(&mut self, pass: &mut Pass, edge: Edge, grad: Tensor) {
        match edge {
            Edge::Nowhere => {}
            Edge::Parameter(id) => {
                let dtype = self.used_type(id);
                let grad = self.cast_grad(edge, grad, dtype);
                let sum = match pass.parameters[id as usize].1.take() {
                    None => grad,
                    Some(old) => self.add_grads(edge, old, grad),
                };
                pass.parameters[id as usize].1 = Some(sum);
            }
            Edge::Node(id, _) if (id as usize) < pass.floor => {
                let found = pass.outside.iter().position(|(outside, _)| *outside == edge);
                let sum = match found.map(|at| pass.outside.swap_remove(at).1) {
                    None => grad,
                    Some(old) => self.add_grads(edge, old, grad),
                };
                pass.outside.push((edge, sum));
            }
            Edge::Node(id, slot) => {
                let slot = usize::from(slot);
                let dtype = self.nodes[id as usize].outputs[slot];
                let grad = self.cast_grad(edge, grad, dtype);
                let arrived = &mut pass.arrived[id as usize - pass.floor];
                if arrived.len() <= slot {
                    arrived.resize(slot + 1, None);
                }
                let sum = match arrived[slot].take() {
                    None => grad,
                    Some(old) => self.add_grads(edge, old, grad),
                };
                pass.arrived[id as usize - pass.floor][slot] = Some(sum);
            }
        }
    }

    /// Adds two gradients that meet: in place where the first is nobody else's.
    fn add_grads(&mut self, edge: Edge, old: Tensor, new: Tensor) -> Tensor {
        if old.is_only_reference() && !old.is_view {
            return old;
        }
        let sum = self.alloc_grad(edge, "gradients that meet, added", old.shape, old.dtype);
        drop((old, new));
        sum
    }

    fn cast_grad(&mut self, edge: Edge, grad: Tensor, dtype: crate::DType) -> Tensor {
        if grad.dtype == dtype { grad } else { self.alloc_grad(edge, "cast of a gradient", grad.shape, dtype) }
    }

    /// One gradient less to wait for; what has all of them runs.
    fn count_down(&mut self, pass: &mut Pass, edge: Edge) {
        match edge {
            Edge::Nowhere => {}
            Edge::Parameter(id) => {
                let (waiting, arrived) = &mut pass.parameters[id as usize];
                *waiting = waiting.saturating_sub(1);
                if *waiting == 0
                    && let Some(grad) = arrived.take()
                {
                    self.accumulate(id, grad);
                }
            }
            Edge::Node(id, _) if (id as usize) < pass.floor => {}
            Edge::Node(id, _) => {
                let waiting = &mut pass.waiting[id as usize - pass.floor];
                *waiting = waiting.saturating_sub(1);
                if *waiting == 0 {
                    pass.ready.push(id);
                }
            }
        }
    }

    /// `AccumulateGrad`: the first gradient is taken as it is, if nobody else has it; later ones are added in place.
    fn accumulate(&mut self, id: u32, grad: Tensor) {
        let is_whole = self.sharded.is_some();
        let parameter = &self.parameters[id as usize];
        let has_gradient = if is_whole { parameter.whole_grad.is_some() } else { parameter.grad.is_some() };
        if has_gradient {
            return;
        }
        let grad = if grad.is_only_reference() {
            grad
        } else {
            self.alloc_as(Category::Gradient, "gradients", grad.shape, grad.dtype)
        };
        let parameter = &mut self.parameters[id as usize];
        let gradient = if is_whole { &mut parameter.whole_grad } else { &mut parameter.grad };
        *gradient = Some(grad);
        self.arrive(id);
    }
}
