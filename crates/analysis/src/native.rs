//! Frames of C++: which part of PyTorch they are, by their names.

/// What a stack without Python frames runs, as far as its C++ frames say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native<'a> {
    /// A node of autograd's graph, such as `BmmBackward0`.
    Node(&'a str),
    /// Autograd's engine itself, between the nodes.
    Engine(&'static str),
    /// An operator, such as `sum_dim_IntList`.
    Operator(&'a str),
}

/// Work of autograd's engine that belongs to no node: a part of the frame's name, and the words for it.
///
/// # Source
/// PyTorch v2.11, `torch/csrc/autograd/input_buffer.cpp` and `input_metadata.cpp`; the stacks of recordings.
const ENGINE: [(&str, &str); 3] = [
    ("torch::autograd::InputBuffer::add", "autograd's engine, adding up gradients"),
    ("torch::autograd::InputMetadata::reduce_grad", "autograd's engine, reducing a gradient to its tensor's shape"),
    ("torch::autograd::Engine::", "autograd's engine"),
];

/// Methods of a node that run, or free what it saved.
const METHODS: [&str; 3] = ["::apply", "::release_variables", "::compiled_args"];

impl<'a> Native<'a> {
    /// What the function of a frame is.
    pub fn of(name: &'a str) -> Option<Self> {
        let engine = || ENGINE.iter().find(|(part, _)| name.contains(part)).map(|&(_, words)| Self::Engine(words));
        node(name).map(Self::Node).or_else(engine).or_else(|| operator(name).map(Self::Operator))
    }

    /// Its words.
    pub const fn words(self) -> &'a str {
        match self {
            Self::Node(name) | Self::Engine(name) | Self::Operator(name) => name,
        }
    }
}

/// The node of autograd's graph whose function this is: `BmmBackward0` of
/// `torch::autograd::generated::BmmBackward0::apply(…)`.
///
/// A node that is written in Python (`PyNode`) has a name in the Python frames only.
pub fn node(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once("torch::autograd::")?;
    let rest = rest.strip_prefix("generated::").unwrap_or(rest);
    let end = end_of_name(rest);
    let (own, after) = rest.split_at(end);
    if let Some(own) = own.strip_suffix("_apply_functional") {
        return Some(own);
    }
    (own != "PyNode" && METHODS.iter().any(|method| after.starts_with(method))).then_some(own)
}

/// The operator that PyTorch's dispatcher is asked for: `sum_dim_IntList` of `at::_ops::sum_dim_IntList::call(…)`.
pub fn operator(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once("at::_ops::")?;
    Some(&rest[..end_of_name(rest)]).filter(|operator| !operator.is_empty())
}

/// The operator that autograd records a node for: `bmm` of `torch::autograd::VariableType::(anonymous namespace)::bmm(…)`.
pub fn recorded_operator(name: &str) -> Option<&str> {
    // The kernel's wrapper names it, too, as a template's argument.
    let rest = name.strip_prefix("torch::autograd::VariableType::")?;
    let rest = rest.strip_prefix("(anonymous namespace)::").unwrap_or(rest);
    Some(&rest[..end_of_name(rest)]).filter(|operator| !operator.is_empty())
}

/// Where a name ends, its template's arguments included.
fn end_of_name(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth > 0 || c.is_alphanumeric() || c == '_' => {}
            _ => return at,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_recordings() {
        for (name, want) in [
            ("torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)", Some("BmmBackward0")),
            ("torch::autograd::generated::AddmmBackward0::release_variables()", Some("AddmmBackward0")),
            (
                "torch::autograd::generated::SelectBackward0_apply_functional(std::vector<at::Tensor>&&, std::array<bool, 1ul>)",
                Some("SelectBackward0"),
            ),
            ("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)", Some("AccumulateGrad")),
            (
                "std::vector<at::Tensor, std::allocator<at::Tensor> > torch::autograd::CopySlices::apply_impl<torch::autograd::X>(int)",
                Some("CopySlices"),
            ),
            (
                "torch::autograd::CppNode<(anonymous namespace)::Mine>::apply(std::vector<at::Tensor>&&)",
                Some("CppNode<(anonymous namespace)::Mine>"),
            ),
            ("torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)", None),
            (
                "std::_Sp_counted_deleter<torch::autograd::generated::SoftmaxBackward0*, void (*)(torch::autograd::Node*)>::_M_dispose()",
                None,
            ),
            ("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)", None),
            (
                "void torch::autograd::validate_outputs_impl<torch::autograd::Edge>(std::vector<torch::autograd::Edge>)",
                None,
            ),
            ("at::native::bmm_cuda(at::Tensor const&)", None),
        ] {
            assert_eq!(node(name), want, "{name}");
        }
        assert_eq!(operator("at::_ops::sum_dim_IntList::call(at::Tensor const&)"), Some("sum_dim_IntList"));
        assert_eq!(
            recorded_operator("torch::autograd::VariableType::(anonymous namespace)::_softmax(c10::X)"),
            Some("_softmax")
        );
        assert_eq!(
            recorded_operator("c10::impl::wrap<torch::autograd::VariableType::(anonymous namespace)::bmm>"),
            None
        );
        assert_eq!(
            Native::of("torch::autograd::InputBuffer::add(unsigned long, at::Tensor&&)"),
            Some(Native::Engine("autograd's engine, adding up gradients"))
        );
    }

    #[test]
    fn a_name_that_never_ends_is_no_harm() {
        for name in [
            "torch::autograd::",
            "torch::autograd::generated::",
            "at::_ops::",
            "torch::autograd::X<<<<",
            "torch::autograd::VariableType::",
        ] {
            assert_eq!(node(name), None, "{name}");
            assert_eq!(operator(name), None, "{name}");
        }
    }
}
