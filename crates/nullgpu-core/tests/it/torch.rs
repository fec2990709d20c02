//! Real programs over the null GPU. They need an interpreter with a PyTorch for CUDA, which is not everywhere: `make torch` gets one
//! and runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use highwater_driver::Card;
use highwater_nullgpu::{Machine, prepare};

use crate::core_library;

fn python() -> PathBuf {
    std::env::var_os("HIGHWATER_TEST_TORCH").expect("HIGHWATER_TEST_TORCH names an interpreter with torch").into()
}

/// Where the interpreter finds PyTorch, which may be a folder of `PYTHONPATH`.
fn site_packages(python: &Path) -> PathBuf {
    let code =
        "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parents[1])";
    let output = Command::new(python).args(["-c", code]).output().expect("the interpreter runs");
    String::from_utf8(output.stdout).expect("a path is text").trim().into()
}

/// Runs Python on a machine of this kind; gives what it printed, and the trace.
fn run(machine: impl FnOnce(Machine) -> Machine, code: &str) -> (String, String) {
    let (python, stubs) = (python(), tempfile::tempdir().expect("a directory"));
    let prepared = prepare(&site_packages(&python), &[], &core_library(), stubs.path()).expect("stubs");
    assert!(!prepared.cached);
    let again = prepare(&site_packages(&python), &[], &core_library(), stubs.path()).expect("stubs");
    assert!(again.cached, "written once");
    assert_eq!(again.preload, prepared.preload);
    let trace = stubs.path().join("trace.jsonl");
    let machine = machine(Machine { trace: Some(trace.clone()), ..Machine::new(Card::named("h200").expect("a card")) });
    let output = Command::new(&python)
        .args(["-c", code])
        .env_remove("CUDA_VISIBLE_DEVICES")
        .envs(again.environment(&machine, None))
        .current_dir(stubs.path())
        .output()
        .expect("the interpreter runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    (text, std::fs::read_to_string(trace).expect("a trace"))
}

/// Action, requested size and stream (numbered by first use) of every entry that the program below left on an H200 with
/// torch 2.11.0+cu130: `torch.cuda.memory._record_memory_history()` before it, `torch.cuda.memory._snapshot()` behind.
const LINEAR_FORWARD: &str = "\
segment_alloc 2000683008 0
alloc 2000000000 0
segment_alloc 2097152 0
alloc 200000 0
segment_alloc 201326592 0
alloc 200000000 0
segment_alloc 1000341504 0
alloc 1000000000 0
segment_alloc 33554432 0
alloc 33554432 0
alloc 1048576 0
segment_alloc 201326592 0
alloc 200000000 0
segment_alloc 1000341504 0
alloc 1000000000 0
free_requested 200000000 0
free_completed 200000000 0
free_requested 1000000000 0
free_completed 1000000000 0
alloc 200000000 0
alloc 1000000000 0
free_requested 200000000 0
free_completed 200000000 0
free_requested 1000000000 0
free_completed 1000000000 0
";

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn a_linear_layer_is_recorded_as_on_the_real_card() {
    let (text, _) = run(
        |machine| machine,
        "
import torch
torch.cuda.memory._record_memory_history()
model = torch.nn.Linear(10_000, 50_000, device='cuda')
for i in range(3):
    inputs = torch.randn(5_000, 10_000, device='cuda')
    outputs = model(inputs)
torch.cuda.synchronize()
streams = {}
for entry in torch.cuda.memory._snapshot()['device_traces'][0]:
    if entry['action'] != 'snapshot':
        print(entry['action'], entry['size'], streams.setdefault(entry['stream'], len(streams)))
",
    );
    assert_eq!(text, LINEAR_FORWARD);
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn a_training_loop_runs_and_its_reads_are_counted() {
    let (text, trace) = run(
        |machine| Machine { devices: 2, ..machine },
        "
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 2
print(torch.cuda.get_device_name(), torch.cuda.get_device_capability())
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
before = torch.cuda.memory_allocated()
for step in range(3):
    loss = model(torch.randn(64, 512, device='cuda')).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
parameters = sum(p.numel() * 4 for p in model.parameters())
held = torch.cuda.memory_allocated() - before
print(held >= 2 * parameters)
torch.cuda.memory._record_memory_history()
torch.ones(3, device='cuda')
torch.cuda.memory._dump_snapshot('snapshot.pickle')
",
    );
    assert_eq!(text, "NVIDIA H200 (9, 0)\n0.0\n0.0\n0.0\nTrue\n");
    assert!(trace.contains(r#""unknown_reads":3,"#), "three losses were read: {trace}");
    assert!(trace.contains(r#""cudaMalloc":"#), "{trace}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn a_small_card_runs_out_of_memory_as_pytorch_says_it() {
    let (text, _) = run(
        |machine| Machine { memory_bytes: Some(8 << 30), context_bytes: Some(512 << 20), ..machine },
        "
import torch
held = []
try:
    while True:
        held.append(torch.empty(1 << 30, dtype=torch.uint8, device='cuda'))
except torch.OutOfMemoryError as error:
    print(len(held), 'total capacity of 8.00 GiB of which 512.00 MiB is free' in str(error))
",
    );
    assert_eq!(text, "7 True\n");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn what_a_program_puts_on_a_device_comes_back_until_a_kernel_runs() {
    let (text, _) = run(
        |machine| machine,
        "
import torch
there = torch.tensor([1, 2, 3]).cuda()
print(there.cpu().tolist())
there.mul_(2)
print(there.cpu().tolist())
",
    );
    assert_eq!(text, "[1, 2, 3]\n[0, 0, 0]\n");
}

/// These ask for sizes that a stub which only says success would leave to chance.
#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn decompositions_and_sparse_products_run_and_their_sizes_are_marked_as_guessed() {
    let (text, trace) = run(
        |machine| machine,
        "
import torch
a = torch.randn(64, 64, device='cuda')
torch.linalg.inv(a), torch.linalg.svd(a), torch.linalg.qr(a), torch.linalg.eigh(a), torch.linalg.cholesky_ex(a)
torch.sparse.mm(torch.eye(64).to_sparse().cuda(), a)
print(torch.cuda.max_memory_allocated() < 1 << 27)
",
    );
    assert_eq!(text, "True\n");
    let guessed = trace.split_once(r#""guessed":["#).expect("the list is there").1;
    assert!(guessed.starts_with(r#""cusparseSp"#), "only the product's is a guess: {trace}");
}

/// PyTorch's own list of operators, each once; those that zeros lead astray are named by the script.
#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn no_operator_of_pytorchs_list_crashes() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/opinfo.py");
    let code = format!(
        "import runpy, sys, torch; torch.cuda.init(); sys.argv = [{script:?}]; runpy.run_path({script:?}, run_name='__main__')"
    );
    let (text, _) = run(|machine| machine, &code);
    assert!(text.contains(r#""crashes": []"#), "{text}");
}

/// Layers whose weights lie in one piece of memory, where the library says which, and copies that it says the size of.
#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn recurrent_networks_run_and_keep_as_much_as_on_the_real_card() {
    let (text, _) = run(
        |machine| machine,
        "
import torch
model = torch.nn.LSTM(32, 64).cuda()
inputs = torch.randn(10, 64, 32, device='cuda')
torch.cuda.memory._record_memory_history(context=None)
outputs = model(inputs)[0]
sizes = [entry['size'] for entry in torch.cuda.memory._snapshot()['device_traces'][0] if entry['action'] == 'alloc']
print(10 * 64 * 64 * 4 * 5 + 256 in sizes)
outputs.sum().backward()
for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    model = kind(20, 32, num_layers=2, bidirectional=True, dropout=0.1).cuda()
    model(torch.randn(5, 3, 20, device='cuda'))[0].sum().backward()
print(torch.arange(3, device='cuda').repeat_interleave(torch.ones(3, dtype=torch.long, device='cuda')).dtype)
",
    );
    assert_eq!(text, "True\ntorch.int64\n");
}

/// Scratch memory that forward and backward pass of a layer of a ResNet-50 took on an H200, with tensor cores.
#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn convolutions_take_the_scratch_memory_that_was_measured() {
    let (text, _) = run(
        |machine| machine,
        "
import torch
inputs = torch.empty(32, 256, 14, 14, device='cuda', requires_grad=True)
weights = torch.empty(256, 256, 3, 3, device='cuda')
torch.cuda.memory._record_memory_history(context=None)
outputs = torch.nn.functional.conv2d(inputs, weights, padding=1)
outputs.backward(outputs.detach())
sizes = [entry['size'] for entry in torch.cuda.memory._snapshot()['device_traces'][0] if entry['action'] == 'alloc']
print(sizes)
",
    );
    assert_eq!(text, "[6422528, 15204368, 6422528, 15204368]\n");
}
