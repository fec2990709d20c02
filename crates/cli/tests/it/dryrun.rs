//! `highwater dryrun`. What needs a PyTorch for CUDA, though no GPU, runs where one is named:
//! `HIGHWATER_TEST_TORCH=/path/to/python cargo test -p highwater dryrun -- --ignored`

use std::path::Path;

use serde_json::Value;

use crate::run::command;

/// Runs `highwater dryrun` in a directory; gives its exit status, standard output and standard error.
fn dry_run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = command().current_dir(directory).arg("dryrun").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub(crate) fn refused(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("there.py"), "").unwrap();
    let (status, out, err) = dry_run(directory.path(), arguments);
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
    err
}

#[test]
fn what_cannot_be_run_is_said_with_what_to_do() {
    let err = refused(&["--gpu", "h300", "there.py"]);
    assert!(err.contains("unknown GPU `h300`") && err.contains("h100"), "{err}");
    let err = refused(&["missing.py"]);
    assert!(err.contains("there is no script `missing.py`") && err.contains("come before the script"), "{err}");
    let err = refused(&["-m"]);
    assert!(err.contains("`-m` needs the name of a module"), "{err}");
    let err = refused(&["--python", "/nowhere/python", "there.py"]);
    assert!(
        err.contains("`/nowhere/python`") && err.contains("cannot be started") && err.contains("--python"),
        "{err}"
    );
    let err = refused(&["-o", "there.py", "there.py"]);
    assert!(err.contains("already exists") && err.contains("--force"), "{err}");
    for (option, value, why) in [
        ("--timeout", "soon", "is not a time"),
        ("--assume", "nonzero=lots", "is not an assumption of `nonzero`"),
        ("--memory", "much", "--memory"),
        ("--steps", "0", "--steps"),
        ("--ranks", "17", "--ranks"),
    ] {
        let err = refused(&[option, value, "there.py"]);
        assert!(err.contains(why), "{option}: {err}");
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_python_without_torch_or_with_one_for_processors_is_said() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    std::fs::create_dir_all(root.join("site/torch")).unwrap();
    std::fs::write(root.join("site/torch/version.py"), "__version__ = '2.9.0+cpu'\ncuda = None\n").unwrap();
    std::fs::write(root.join("train.py"), "").unwrap();
    let answers = |torch: &str| {
        let answer = format!(r#"{{"torch": {torch}, "system": "Linux", "machine": "x86_64", "version": [3, 12]}}"#);
        std::fs::write(root.join("python"), format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
        std::fs::set_permissions(root.join("python"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (status, out, err) = dry_run(root, &["--python", "./python", "train.py"]);
        assert_eq!((status, out.as_str()), (2, ""));
        err
    };
    let err = answers("null");
    assert!(err.contains("PyTorch is not installed there") && err.contains("pip install torch"), "{err}");
    let err = answers(&format!(r#""{}""#, root.join("site/torch").display()));
    assert!(err.contains("torch 2.9.0+cpu is built without CUDA") && err.contains("pip install torch"), "{err}");
}

pub(crate) fn python() -> String {
    std::env::var("HIGHWATER_TEST_TORCH").expect("HIGHWATER_TEST_TORCH names an interpreter with torch")
}

/// What a script does in a dry run, as the JSON document.
pub(crate) fn with_torch(script: &str, options: &[&str]) -> (i32, Value, String) {
    let python = python();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("script.py"), script).unwrap();
    let arguments = [&["--python", &python, "--format", "json"], options, &["script.py", "--own", "option"]].concat();
    let (status, out, err) = dry_run(directory.path(), &arguments);
    let answer = serde_json::from_str(&out).unwrap_or(Value::Null);
    if !answer.is_null() {
        crate::formats::check(&answer);
    }
    (status, answer, err)
}

const TRAIN: &str = "
import sys, torch
assert sys.argv[1:] == ['--own', 'option']
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    model(torch.randn(64, 1024, device='cuda')).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
";

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_training_ends_after_its_steps_and_is_explained() {
    let (status, answer, err) = with_torch(TRAIN, &["--gpu", "h100", "--steps", "3"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!((&answer["format"], &answer["ended"]), (&"highwater-dryrun".into(), &"steps".into()));
    assert_eq!(answer["steps"], 3);
    let device = &answer["report"]["devices"][0];
    assert_eq!(device["peak"]["reserved_bytes"], answer["peak"]["reserved_bytes"], "the trace is whole");
    assert_eq!(device["iterations"].as_array().map(Vec::len), Some(3));
    assert_eq!(device["at_peak"]["categories"]["parameter"], 33_574_912, "two layers and their biases");
    assert!(answer["simulate"]["fit"].is_array());
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_running_out_of_memory_is_the_imagined_cards() {
    let script = "import torch\nheld = [torch.empty(1 << 30, dtype=torch.uint8, device='cuda') for _ in range(9)]\n";
    let (status, answer, err) = with_torch(script, &["--memory", "8GiB"]);
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("total capacity of 8.00 GiB"), "PyTorch's own message: {err}");
    assert_eq!(answer["ended"], "oom");
    assert_eq!(answer["report"]["devices"][0]["oom"][0]["requested_bytes"], 1_u64 << 30);
    let text = answer["explain"]["diagnosis"]["text"].as_str().unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("script.py"), script).unwrap();
    let (status, said, err) = dry_run(directory.path(), &["--python", &python(), "--memory", "8GiB", "script.py"]);
    assert_eq!(status, 1, "{err}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.starts_with("script.py on NVIDIA H200 of 8.00 GiB, imitated: ran out of memory, "), "{said}");
    assert!(said.contains(text), "{text}: {said}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_the_answer_says_where_addresses_decide() {
    // Two free blocks of one size, of which the lower is taken: only one of them lets its segment become whole again.
    let script = "
import torch
def take(mebibytes): return torch.empty(mebibytes << 20, dtype=torch.uint8, device='cuda')
whole, other = take(40), take(30)
del whole
part = take(10)
del other
one = take(30)
del part
last = take(40)
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["addresses"]["reserved_bytes"], serde_json::json!([70 << 20, 110 << 20]), "{}", answer["peak"]);
    assert_eq!(answer["addresses"]["allocated_bytes"], serde_json::json!([70 << 20, 70 << 20]));
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_gradients_that_overflow_belong_to_the_range() {
    let script = "
import torch
# A mask of padding that is added as fractions, and made a mask again.
padding = torch.arange(256).ge(100).expand(64, 256).cuda()
added = torch.zeros_like(padding, dtype=torch.float32).masked_fill_(padding, float('-inf'))
assert added.logical_not().nonzero().shape == (6400, 2)
# No expert is without a token, even or not.
experts = torch.randn(4096, 16, device='cuda').topk(2)[1]
assert min((experts == expert).nonzero().shape[0] for expert in range(16)) > 0
scaler, linear = torch.amp.GradScaler('cuda'), torch.nn.Linear(2000, 2000).cuda()
optimizer = torch.optim.Adam(linear.parameters())
scaler.scale(linear(torch.randn(2, 2000, device='cuda')).sum()).backward()
scaler.step(optimizer); scaler.update()
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["few"][0]["how"], "exit", "{}", answer["few"]);
    let few = answer["few"][0]["devices"][0]["peak_requested_bytes"].as_u64().unwrap();
    let all = answer["peak"]["requested_bytes"].as_u64().unwrap();
    // Without the two copies that Adam keeps.
    assert!(few + 30_000_000 < all, "{few} of {all}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_weights_that_are_asked_of_the_network_are_invented() {
    let script = "
import torch
model = torch.nn.Linear(1000, 1000).cuda()
model.load_state_dict(torch.hub.load_state_dict_from_url('https://nowhere.invalid/weights.pth')['model'])
";
    let (status, answer, err) = with_torch(script, &["--fake-weights"]);
    assert_eq!((status, &answer["peak"]["requested_bytes"]), (0, &4_004_000.into()), "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_masks_have_their_size_in_the_backward_pass_too() {
    let script = "
import torch, torch.nn.functional as F
x = torch.randn(10, 4, device='cuda', requires_grad=True)
first = (torch.arange(10) < 4).cuda()
x[first].sum().backward()
x.masked_select(first[:, None]).sum().backward()
into, rows = torch.zeros(10, 4, device='cuda'), torch.randn(4, 4, device='cuda', requires_grad=True)
into[first] = rows
into.sum().backward()
assert rows.grad.shape == (4, 4)
positive = x[(x > 0).any(1)]
assert positive.shape == (10, 4)
positive.sum().backward()
assert (x > 0).cpu().float().mean() == 1, 'a mask is the same on the host'
assert not torch.isnan(x).any() and x[torch.isfinite(x)].shape == (40,) and x[torch.isnan(x)].shape == (0,)
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    let assumed = answer["processes"][0]["assumed"].as_array().unwrap();
    let places: Vec<&str> = assumed.iter().map(|row| row["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["script.py:11 <module>", "script.py:14 <module>"], "each once, at the program's own line");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_what_is_chosen_by_rank_is_as_large_as_the_ranks_say() {
    let script = "
import torch
# The best three quarters of the nodes of each graph, by scores that only a GPU could compute.
graph = torch.arange(3).repeat_interleave(torch.tensor([10, 30, 20])).cuda()
order = torch.randn(60, device='cuda').argsort(descending=True)
sorted_graph, places = graph[order].sort(stable=True)
count = torch.bincount(graph)
starts = count.new_empty(4)
starts[:1] = 0
torch.cumsum(count, 0, out=starts[1:])
kept = order[places[torch.arange(60, device='cuda') - starts[sorted_graph] < (0.75 * count.float()).ceil()[sorted_graph]]]
assert kept.shape == (8 + 23 + 15,), kept.shape
assert int(graph[kept].max()) == 2 and torch.bincount(graph[kept]).shape == (3,)
number = torch.full((60,), -1, device='cuda')
number[kept] = torch.arange(46, device='cuda')
assert number[number >= 0].shape == (46,)
# A tensor that was known, of which a part is likely: the starts of the nodes that were kept.
starts = count.new_empty(4)
starts[:1] = 0
torch.cumsum(torch.bincount(graph[kept]), 0, out=starts[1:])
assert int(starts[3]) == 46 and int(starts[0]) == 0
# Patches that an encoder does not see, drawn by the order of noise.
noise = torch.rand(4, 40, device='cuda')
back = noise.argsort(1).argsort(1)
mask = torch.ones(4, 40, device='cuda')
mask[:, :10] = 0
assert torch.zeros(4, 40, 8, device='cuda')[mask.gather(1, back).bool()].shape == (120, 8)
";
    let (status, _, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_each_layer_and_step_chooses_other_experts_where_routing_is_uneven() {
    let script = "
import torch
from torch.utils.checkpoint import checkpoint
class Router(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = torch.nn.Linear(16, 8)
        self.seen = []
    def forward(self, tokens):
        weights, chosen = self.scores(tokens).softmax(-1).topk(2)
        tokens = tokens[(chosen == 3).nonzero()[:, 0]] * weights.sum()
        self.seen.append(len(tokens))
        return tokens
layers = torch.nn.ModuleList([Router().cuda(), Router().cuda()])
optimizer = torch.optim.SGD(layers.parameters())
for step in range(2):
    tokens = torch.randn(4096, 16, device='cuda', requires_grad=True)
    # A forward pass that is repeated has the same sizes, or this fails.
    sum(checkpoint(layer, tokens, use_reentrant=False).sum() for layer in layers).backward()
    optimizer.step()
seen = [count for layer in layers for count in layer.seen]
assert len(seen) == 4 and len(set(seen)) > 2, seen
";
    let (status, _, err) = with_torch(script, &["--assume", "routing=uneven"]);
    assert_eq!(status, 0, "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_tensors_without_a_storage_and_lengths_on_the_card_run() {
    let script = "
import torch, torch.nn.functional as F
from torch.func import functional_call, grad, vmap
from torch.nn.attention.flex_attention import create_block_mask
model = torch.nn.Linear(6, 3).cuda()
loss = lambda p, x, y: F.cross_entropy(functional_call(model, p, (x[None],)), y[None])
x, y = torch.randn(5, 6, device='cuda'), torch.randint(0, 3, (5,), device='cuda')
each = vmap(grad(loss), in_dims=(None, 0, 0))({k: v.detach() for k, v in model.named_parameters()}, x, y)
assert each['weight'].shape == (5, 3, 6)
assert create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 256, device='cuda').kv_num_blocks.shape == (1, 1, 2)
table = torch.nn.Embedding(100, 8, sparse=True).cuda()
optimizer = torch.optim.SparseAdam(table.parameters())
table(torch.tensor([1, 2, 2, 3]).cuda()).sum().backward()
optimizer.step()
optimizer.zero_grad()
(table(torch.tensor([1, 2, 2, 3]).cuda()).sum() + table(torch.tensor([3, 4]).cuda()).sum()).backward()
assert table.weight.grad._nnz() == 6 and table.weight.grad.coalesce()._nnz() == 4
assert torch.sparse_coo_tensor(torch.tensor([[1, 2, 2]]).cuda(), torch.ones(3, device='cuda')).coalesce()._nnz() == 2
twice = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [1, 1, 2]]).cuda(), torch.ones(3, device='cuda'), (4, 4))
assert torch.sparse.softmax(twice, 1)._nnz() == 2, 'an operator that coalesces by itself'
matrices = torch.randn(9, 4, 4, device='cuda', requires_grad=True)
torch.linalg.matrix_exp(matrices).sum().backward()
assert matrices.grad.shape == (9, 4, 4) and torch.linalg.matrix_exp(matrices[0].double()).shape == (4, 4)
assert F.one_hot(torch.tensor([3, 1, 7]).cuda()).shape == (3, 8)
scores = torch.randn(50, 6, 20, device='cuda', requires_grad=True).log_softmax(2)
targets = torch.randint(1, 20, (6, 12)).cuda()
lengths = 50 - torch.arange(6).cuda()
F.ctc_loss(scores, targets, lengths, (targets > 0).sum(1)).backward()
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).cuda().eval()
padded = torch.arange(7)[None] >= torch.tensor([[3], [7], [5]])
with torch.inference_mode():
    assert encoder(torch.randn(3, 7, 16, device='cuda'), src_key_padding_mask=padded.cuda()).shape == (3, 7, 16)
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    let assumed = answer["processes"][0]["assumed"].as_array().unwrap();
    let places: Vec<&str> = assumed.iter().map(|row| row["place"].as_str().unwrap()).collect();
    let [_, ..] = places.as_slice() else { panic!("nothing is assumed: {answer}") };
    assert!(
        places.iter().all(|place| ["script.py:22 <module>", "script.py:23 <module>"].contains(place)),
        "of matrices' exponentials alone: {places:?}"
    );
}

#[test]
#[ignore = "needs a PyTorch for CUDA with Triton, and a C compiler: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_compile_makes_with_triton_what_it_would_for_the_card_and_nothing_of_ours() {
    let script = "
import torch
def step(x, w):
    return torch.nn.functional.gelu(x @ w).sum()
x = torch.randn(4096, 4096, device='cuda', dtype=torch.bfloat16)
w = torch.randn(4096, 4099, device='cuda', dtype=torch.bfloat16, requires_grad=True)
assert len(torch.overrides._get_current_function_mode_stack()) == 1
explained = torch._dynamo.explain(step)(x, w)
assert (explained.graph_count, explained.graph_break_count) == (1, 0), explained
torch.cuda.memory._record_memory_history()
torch.compile(step)(x, w).backward()
assert len(torch.overrides._get_current_function_mode_stack()) == 1, 'it is followed again'
with torch.profiler.record_function('a function without tensors'):
    pass
sizes = {entry['size'] for entry in torch.cuda.memory._snapshot()['device_traces'][0]}
assert 4096 * 4104 * 2 in sizes, '4,099 columns are padded, as a card would find faster'
";
    let (status, answer, err) = with_torch(script, &["--gpu", "h100"]);
    assert_eq!((status, &answer["ended"]), (0, &"exit".into()), "{err}");
    let reads = answer["processes"][0]["reads"].as_array().unwrap();
    assert!(reads.iter().all(|read| read["what"] == "compiled function"), "{reads:?}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_scripts_that_record_get_what_they_would_on_a_gpu() {
    let script = "
import sys, torch
before = torch.ones(1000, 1000, device='cuda')
assert torch.cuda.memory._snapshot()['device_traces'] == [[]], 'nobody records'
assert 'torch._inductor' not in sys.modules, 'seconds, for nothing'
assert '_inductor' in torch._lazy_modules, 'whoever needs it gets it'
torch.cuda.memory._record_memory_history(max_entries=4)
held = [torch.ones(100, 100, device='cuda') for _ in range(10)]
snapshot = torch.cuda.memory._snapshot()
assert len(snapshot['device_traces'][0]) == 4, 'the last ones'
blocks = [block for segment in snapshot['segments'] for block in segment['blocks'] if block['state'] != 'inactive']
frames = [block for block in blocks if block.get('frames')]
assert len(blocks) == 11 and len(frames) == 10, 'memory allocated before the recording has none'
assert all('highwater' not in frame['filename'] for block in frames for frame in block['frames'])
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(torch.nn.functional.interpolate(x, scale_factor=2), 2)
module = ['forward', '_call_impl', '_wrapped_call_impl', '<module>']
for stacks in ('python', 'all'):
    torch.cuda.memory._record_memory_history(stacks=stacks)
    Net()(torch.ones(1, 1, 64, 64, device='cuda'))
    entries = torch.cuda.memory._snapshot()['device_traces'][0]
    names = [[frame['name'] for frame in entry.get('frames', []) if frame['filename'].endswith('.py')] for entry in entries]
    assert ['interpolate', *module] in names and ['_max_pool2d', 'fn', *module] in names, names
def told(): return torch.ones(7, device='cuda')
def untold(): return torch.ones(8, device='cuda')
def of_block(): return torch.ones(9, device='cuda')
kept = []
for context, take in (('all', told), (None, untold), ('state', of_block)):
    torch.cuda.memory._record_memory_history(context=context)
    kept.append(take())
snapshot = torch.cuda.memory._snapshot()
blocks = [block for segment in snapshot['segments'] for block in segment['blocks']]
of = lambda holders: {frame['name'] for holder in holders for frame in holder.get('frames', [])} & {'told', 'untold', 'of_block'}
assert of(snapshot['device_traces'][0]) == {'told'}, 'the others were not asked for'
assert of(blocks) == {'told', 'of_block'}
del kept
torch.cuda.memory._record_memory_history(enabled=None)
assert torch.cuda.memory._snapshot()['device_traces'] == [[]]
after = torch.ones(10, device='cuda')
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    let device = &answer["report"]["devices"][0];
    assert_eq!(device["recorded"]["from_start"], true);
    assert_eq!(device["end"]["allocated_bytes"], 4_000_256 + 10 * 40_448 + 512, "ours is complete");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_runs_that_end_badly_leave_what_they_recorded() {
    let begin = "import torch\nx = torch.ones(1000, 1000, device='cuda')\n";
    let (status, answer, _) = with_torch(&format!("{begin}raise ValueError('no luck')\n"), &[]);
    assert_eq!((status, &answer["ended"], &answer["error"]), (2, &"error".into(), &"ValueError: no luck".into()));
    let reads = format!("{begin}print(x.mean().item())\nn = int((x * x).sum())\n[1, 2][n + 2]\n");
    let (status, answer, err) = with_torch(&reads, &[]);
    assert_eq!((status, &answer["error"]), (2, &"IndexError: list index out of range".into()), "{err}");
    let read = &answer["processes"][0]["last_read"];
    assert_eq!(read["place"], "script.py:4 <module>", "{answer}");
    for (number, ended, error) in [(0, "exit", ""), (3, "error", "os._exit(3)")] {
        let (status, answer, err) = with_torch(&format!("{begin}import os; os._exit({number})\n"), &[]);
        assert_eq!((status == 0, &answer["ended"]), (number == 0, &ended.into()), "{err}");
        assert_eq!(answer["error"].as_str().unwrap_or_default(), error);
        assert_eq!(answer["peak"]["requested_bytes"], 4_000_000);
    }
    // The clock is put forward, for how long it takes to get there nobody knows.
    let script = format!("{begin}import time; time.time = lambda: 1e12\nwhile x.sum().item() > -1: pass\n");
    let (status, answer, _) = with_torch(&script, &["--timeout", "10m"]);
    assert_eq!((status, &answer["ended"]), (2, &"timeout".into()));
    let stack = answer["processes"][0]["stack"].as_str().unwrap();
    assert!(stack.contains("line 4") && !stack.contains("highwater_dryrun"), "{stack}");
    let (status, answer, _) = with_torch(&format!("{begin}import ctypes; ctypes.string_at(0)\n"), &[]);
    assert_eq!((status, &answer["ended"]), (2, &"crash".into()));
    assert!(answer["error"].as_str().unwrap().starts_with("SIGSEGV after a call of `cuda"), "{}", answer["error"]);
    assert_eq!(answer["report"]["devices"][0]["end"]["requested_bytes"], 4_000_000);
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_the_answer_says_where_timing_decides() {
    // DDP's first buckets live until the watchdog has seen that they were reduced, for which it has time in `item`.
    let script = "
import os, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
torch.cuda.set_device(rank)
dist.init_process_group('nccl')
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2048, 2048).cuda())
optimizer = torch.optim.AdamW(model.parameters())
after_forward = []
for _ in range(4):
    loss = model(torch.randn(8, 2048, device='cuda')).sum()
    after_forward.append(torch.cuda.memory_allocated())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
if 'late' not in os.environ['HIGHWATER_NULLGPU_TIMING']:
    assert after_forward[1] == after_forward[2] == after_forward[3], after_forward
dist.destroy_process_group()
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2"]);
    assert_eq!(status, 0, "{err}");
    let late = answer["late"].as_array().unwrap();
    assert_eq!(late.iter().map(|process| process["rank"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)]);

    // Memory that another stream uses, and a script that would notice its second run.
    let script = "
import torch
with open('runs.txt', 'a') as file: file.write('once\\n')
print('prints once')
side, held = torch.cuda.Stream(), []
for _ in range(4):
    held = torch.empty(1 << 24, dtype=torch.uint8, device='cuda')
    with torch.cuda.stream(side): held.add_(1)
    held.record_stream(side)
    del held
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["peak"]["reserved_bytes"], 16 << 20);
    assert_eq!(answer["late"][0]["devices"][0]["peak_reserved_bytes"], 64 << 20);
    assert_eq!(err.matches("prints once").count(), 1, "{err}");
    assert!(err.contains("the peak depends on when streams finish: running once more"), "{err}");
    let (_, answer, err) = with_torch(script, &["--timing", "at-once"]);
    assert!(answer["late"].is_null() && !err.contains("once more"), "{err}");

    // In a real first step the host loads kernels, and the GPU is done before it: the block that fits is taken. Later it is not.
    let script = "
import torch
weight = torch.nn.Parameter(torch.ones(1, device='cuda'))
optimizer, side = torch.optim.SGD([weight]), torch.cuda.Stream()
for step in range(2):
    for _ in range(4):
        held = torch.empty((16 << step) << 20, dtype=torch.uint8, device='cuda')
        with torch.cuda.stream(side): held.add_(1)
        held.record_stream(side)
        del held
    optimizer.step()
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    let peak = |of: &str| answer[of][0]["devices"][0]["peak_reserved_bytes"].as_u64().unwrap() >> 20;
    assert_eq!(["processes", "late", "late_after_first_step"].map(peak), [50, 194, 146]);
    let (_, answer, _) = with_torch(script, &["--timing", "late-after-first-step"]);
    assert_eq!(
        (answer["processes"][0]["devices"][0]["peak_reserved_bytes"].as_u64(), &answer["late"]),
        (Some(146 << 20), &Value::Null)
    );

    // Pinned memory that a copy still reads is the host's.
    let script = "
import torch
for _ in range(4): torch.ones(1000).pin_memory().cuda(non_blocking=True)
";
    let (_, answer, err) = with_torch(script, &[]);
    assert!(answer["late"].is_null() && !err.contains("once more"), "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_backward_pass_ends_when_its_threads_are_at_rest() {
    // A thread with the name of one of autograd's, which computes for some time where a backward pass takes none.
    let script = "
import ctypes, hashlib, threading, torch
weight = torch.ones(1, device='cuda', requires_grad=True)
weight.sum().backward()
ready = threading.Event()
def work():
    ctypes.CDLL(None).prctl(15, b'pt_autograd_7', 0, 0, 0)
    ready.set()
    hashlib.pbkdf2_hmac('sha256', b'', b'', 60_000)
thread = threading.Thread(target=work, daemon=True)
thread.start()
ready.wait()
weight.sum().backward()
state = open(f'/proc/self/task/{thread.native_id}/stat').read().rpartition(')')[2].split()[0] if thread.is_alive() else 'S'
assert state != 'R', state
";
    let (status, _, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_checkpoints_stay_in_the_sandbox() {
    let script = "
import os, torch
model = torch.nn.Linear(100, 100).cuda()
os.makedirs('runs')
torch.save(model.state_dict(), 'runs/model.pt')
assert sorted(torch.load('runs/model.pt')) == ['bias', 'weight'] and os.listdir('runs') == ['model.pt']
assert torch.load('runs/model.pt', mmap=True, map_location='cpu')['bias'].shape == (100,)
torch.save(model.state_dict(), 'runs/old.pt', _use_new_zipfile_serialization=False)
assert len(torch.load('runs/old.pt', mmap=False)) == 2
open('script.py', 'a').write('# changed')
try:
    from safetensors.torch import load_file, save_file
    save_file({'ones': torch.ones(3)}, 'runs/model.safetensors')
    assert load_file('runs/model.safetensors')['ones'].sum() == 3
except ImportError:
    open('runs/model.safetensors', 'w').close()
";
    let (status, answer, err) = with_torch(script, &["--sandbox"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(
        (&answer["sandbox"]["files"], &answer["sandbox"]["replaced"]),
        (&4.into(), &1.into()),
        "{}",
        answer["sandbox"]
    );
}

/// Memory by owner at a card's peak, without PyTorch's segments and what is not part of the sum.
fn outside(report: &Value) -> std::collections::BTreeMap<String, i64> {
    let owners = report["driver"]["cards"][0]["peak"]["owners"].as_array().expect("the driver was recorded");
    let counts = owners.iter().filter(|owner| owner["counts"] == true && owner["role"] != "pytorch");
    counts.map(|owner| (owner["title"].as_str().unwrap().to_owned(), owner["bytes"].as_i64().unwrap())).collect()
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_memory_outside_pytorch_is_that_of_an_h100() {
    memory_outside_is_that_of_an_h100(&["cudnn", "expandable", "nccl_ranks"]);
}

#[test]
#[ignore = "takes a minute, part of `make nightly`; needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn nightly_memory_of_the_driver_is_that_of_an_h100() {
    memory_outside_is_that_of_an_h100(&["plain", "streams", "graphs", "extension", "pinned", "pool", "nccl"]);
}

/// Each of these programs of `whole_card.py` has, dry, the memory outside PyTorch that it had on the card.
fn memory_outside_is_that_of_an_h100(programs: &[&str]) {
    const MIB: i64 = 1 << 20;
    /// CUPTI's own, which a dry run does not have.
    const CONTEXT_BOUND: i64 = 14 * MIB;
    const BOUND: i64 = 4 * MIB;
    let recipe = highwater_testkit::testdata("recipes/whole_card.py");
    for &name in programs {
        let settings = if name == "expandable" { "expandable_segments:True" } else { "" };
        let script = format!(
            "import os, sys\nos.environ.update(MODE='none', PYTORCH_CUDA_ALLOC_CONF='{settings}')\nsys.argv = ['whole_card.py', '{name}', 'out']\n\
             exec(compile(open('{}').read(), '/home/user/whole_card.py', 'exec'))\n",
            recipe.display()
        );
        let options: &[&str] = if name == "nccl_ranks" { &["--ranks", "2"] } else { &[] };
        let (status, answer, err) = with_torch(&script, &[&["--gpu", "h100"], options].concat());
        assert_eq!(status, 0, "{name}: {err}");
        let here = outside(&answer["report"]);
        let file = name.replace("nccl_ranks", "nccl_rank0");
        let recorded = crate::run::json(&format!("report ../whole_card/{file}.pickle.gz --format json"));
        let card = outside(&recorded);
        for title in here.keys().chain(card.keys()) {
            let difference = here.get(title).unwrap_or(&0) - card.get(title).unwrap_or(&0);
            let bound = if title == "CUDA context" { CONTEXT_BOUND } else { BOUND };
            assert!(difference.abs() <= bound, "{name}: {title} differs by {difference}\n{here:?}\n{card:?}");
        }
        let sites = |report: &Value, library: &str| {
            let owners = report["driver"]["cards"][0]["peak"]["owners"].as_array().unwrap().clone();
            let owner = owners.into_iter().find(|owner| owner["role"] == "library" && owner["library"] == library);
            let sites = owner.map_or_else(Vec::new, |owner| owner["sites"].as_array().unwrap().clone());
            sites.into_iter().map(|site| (site["bytes"].clone(), site["line"]["line"].clone())).collect::<Vec<_>>()
        };
        // NCCL's own thread connects two ranks on a card, where the main thread is at most a line further.
        for library in ["ctypes", "NCCL"].into_iter().filter(|_| name != "nccl_ranks") {
            assert_eq!(sites(&answer["report"], library), sites(&recorded, library), "{name}: {library}");
        }
    }
}

/// Every so many operators of PyTorch's own list, from the first on.
fn operators_run_as_on_the_host(first: usize, step: usize) {
    let script = format!("FIRST, STEP = {first}, {step}\n{}", include_str!("dryrun_operators.py"));
    let (status, _, err) = with_torch(&script, &["--assume", "nonzero=full"]);
    assert_eq!(status, 0, "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_operators_run_as_on_the_host() {
    operators_run_as_on_the_host(0, 8);
}

#[test]
#[ignore = "takes a minute, part of `make nightly`; needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn nightly_every_operator_runs_as_on_the_host() {
    operators_run_as_on_the_host(0, 1);
}
