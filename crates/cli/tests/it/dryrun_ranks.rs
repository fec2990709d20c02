//! `highwater dryrun` of several ranks: what they tell each other, and what is said if one of them fails. As in `dryrun`, a PyTorch is
//! needed.

use crate::dryrun::{refused, with_torch};

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_ranks_tell_each_other_small_values() {
    let script = "
import os, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
torch.cuda.set_device(rank)
dist.init_process_group('nccl')
number = torch.tensor([7 if rank == 0 else -1, 2], device='cuda')
dist.broadcast(number, 0)
assert number.tolist() == [7, 2], number.tolist()
unknown = torch.randn(3, device='cuda')
dist.broadcast(unknown, src=0)
assert unknown.tolist() == [0, 0, 0]
told = [{'names': ['a'] * 50}] if rank == 0 else [None]
dist.broadcast_object_list(told, src=0)
assert told[0]['names'][3] == 'a', told
group = dist.new_group([0, 1])
number = torch.tensor([rank], device='cuda')
dist.broadcast(number, 1, group=group)
assert number.item() == 1
first = dist.new_group([0])
number = torch.tensor([rank], device='cuda')
dist.broadcast(number, 0, group=first)
assert number.item() == rank, 'who is not in the group hears nothing'
dist.destroy_process_group()
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["processes"].as_array().map(Vec::len), Some(2), "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_ranks_are_launched_or_imagined() {
    let script = "
import os, torch, torch.distributed as dist
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
torch.cuda.set_device(rank)
dist.init_process_group('nccl')
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(8, 512, device='cuda')).sum().backward()
    optimizer.step()
assert dist.get_world_size() == world == 2
dist.barrier()
dist.destroy_process_group()
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2"]);
    assert_eq!(status, 0, "{err}");
    let ranks: Vec<_> =
        answer["processes"].as_array().unwrap().iter().map(|process| process["rank"].as_u64()).collect();
    assert_eq!(ranks, [Some(0), Some(1)]);
    let peak = answer["peak"]["requested_bytes"].clone();
    let (status, answer, err) = with_torch(script, &["--imagine-ranks", "2"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!((answer["processes"].as_array().unwrap().len(), &answer["peak"]["requested_bytes"]), (1, &peak));
    assert!(answer["kinds"].is_null(), "only one rank was wanted");

    // Two stages, whose ranks are alike.
    let script = "
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
dist.init_process_group('nccl')
stage = init_device_mesh('cuda', (2, 4), mesh_dim_names=('stage', 'copy'))['stage'].get_local_rank()
torch.nn.Linear(512, 1024 * (1 + stage)).cuda()(torch.randn(8, 512, device='cuda')).sum().backward()
";
    let (status, answer, err) = with_torch(script, &["--imagine-ranks", "8", "--ranks", "all"]);
    assert_eq!(status, 0, "{err}");
    let kinds = answer["kinds"].as_array().unwrap();
    let ranks: Vec<_> = kinds.iter().map(|kind| (kind["ranks"].clone(), kind["process"]["rank"].clone())).collect();
    assert_eq!(
        ranks,
        [([0, 1, 2, 3].as_slice().into(), 0.into()), ([4, 5, 6, 7].as_slice().into(), 4.into())],
        "{err}"
    );
    assert_eq!(err.matches("highwater: running rank").count(), 3, "{err}");

    // A rank that ends before it uses the GPU leaves nothing, and is no success.
    let script = "
import os, sys, torch
if os.environ['RANK'] == '3': sys.exit('no data')
torch.ones(1 << 20, device='cuda')
";
    let (status, answer, err) = with_torch(script, &["--imagine-ranks", "4", "--ranks", "all"]);
    assert_eq!(status, 2, "{err}");
    let kinds = answer["kinds"].as_array().unwrap();
    assert_eq!(kinds.iter().filter(|kind| kind["process"].is_null()).count(), 1, "{err}");
}

#[test]
fn ranks_of_each_kind_are_those_imagined() {
    for (options, hint) in [
        (["--ranks", "all", "--steps", "1"], "give `--imagine-ranks N`"),
        (["--ranks", "2", "--imagine-ranks", "4"], "`--ranks all` with `--imagine-ranks N`"),
    ] {
        let err = refused(&[options.as_slice(), &["there.py"]].concat());
        assert!(err.contains(hint), "{err}");
    }
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_collectives_carry_small_values() {
    let script = "
import os, torch, torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
device = torch.device('cuda', rank)
torch.cuda.set_device(device)
dist.init_process_group('nccl', device_id=device)
own = torch.tensor([rank + 1, 10 * (rank + 1)], device=device)
def reduced(how):
    copy = own.clone()
    dist.all_reduce(copy, op=how)
    return copy.tolist()
assert reduced(dist.ReduceOp.SUM) == [3, 30] and reduced(dist.ReduceOp.PRODUCT) == [2, 200]
assert reduced(dist.ReduceOp.MIN) == [1, 10] and reduced(dist.ReduceOp.MAX) == [2, 20]
parts = [torch.empty_like(own) for _ in range(world)]
dist.all_gather(parts, own)
assert [part.tolist() for part in parts] == [[1, 10], [2, 20]]
part = torch.empty(2, dtype=own.dtype, device=device)
dist.reduce_scatter(part, [own * (to + 1) for to in range(world)])
assert part.tolist() == [3 * (rank + 1), 30 * (rank + 1)]
sizes = torch.tensor([1 + rank, 3], device=device)
others = torch.empty_like(sizes)
dist.all_to_all_single(others, sizes)
assert others.tolist() == ([1, 2] if rank == 0 else [3, 3])
rows = torch.empty(int(others.sum()), dtype=torch.int64, device=device)
dist.all_to_all_single(rows, torch.full((int(sizes.sum()),), rank, device=device), others.tolist(), sizes.tolist())
assert rows.tolist() == [0] * int(others[0]) + [1] * int(others[1])
next_one = torch.zeros(1, dtype=torch.int64, device=device)
sent = torch.tensor([rank], device=device)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, next_one, 1 - rank)]):
    work.wait()
assert next_one.item() == 1 - rank
objects = [None] * world
dist.all_gather_object(objects, {'rank': rank, 'text': 'x' * (100 * rank)})
assert objects == [{'rank': 0, 'text': ''}, {'rank': 1, 'text': 'x' * 100}]
assert all_reduce(own, 'sum', [0, 1]).tolist() == [3, 30]
dist.barrier()
dist.destroy_process_group()
";
    let (status, _, err) = with_torch(script, &["--ranks", "2"]);
    assert_eq!(status, 0, "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_collectives_in_different_orders_are_named_with_both_lines() {
    let script = "
import os, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
torch.cuda.set_device(rank)
dist.init_process_group('nccl')
data = torch.ones(1 << 20, device='cuda')
if rank == 0:
    dist.all_reduce(data)
else:
    dist.broadcast(data, 0)
dist.barrier()
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2"]);
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("`all_reduce` at script.py:8") && error.contains("`broadcast` at script.py:10"),
        "{error} {err}"
    );
    assert_eq!(status, 2);
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_collectives_on_the_host_in_different_orders_are_named_with_both_lines() {
    // Gloo waits for ever here.
    let script = "
import os, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
dist.init_process_group('gloo')
torch.ones(1, device='cuda')
data = torch.ones(4)
dist.all_reduce(data)
if rank == 0:
    dist.barrier()
else:
    dist.broadcast(data, 0)
dist.all_reduce(data)
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2", "--timeout", "5m"]);
    // The last to call says so; the other may be told by gloo that nobody is there any more.
    let processes = answer["processes"].as_array().unwrap();
    let named = processes.iter().filter_map(|process| process["error"].as_str()).any(|error| {
        error.contains("different orders: as number 2 of a group")
            && error.contains("`barrier` at script.py:9")
            && error.contains("`broadcast` at script.py:11")
    });
    assert!(named, "{processes:?} {err}");
    assert_eq!((status, &answer["ended"]), (2, &"error".into()), "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_collectives_on_the_host_in_one_order_are_left_alone() {
    let script = "
import os, torch, torch.distributed as dist
from torch.distributed import _functional_collectives as functional
rank, port = int(os.environ['RANK']), int(os.environ['MASTER_PORT'])
torch.ones(1, device='cuda')
for again in range(2):
    # Groups of the same names, one after the other.
    if again: dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port + 1}', rank=rank, world_size=2)
    else: dist.init_process_group('gloo')
    data, parts = torch.ones(4), [torch.empty(4), torch.empty(4)]
    later = dist.all_reduce(data, async_op=True)
    dist.broadcast(data, 1)
    later.wait()
    dist.gather(data, parts if rank else None, dst=1)
    dist.scatter(data, None if rank else parts, src=0)
    objects = [None, None]
    dist.all_gather_object(objects, rank)
    assert objects == [0, 1]
    dist.gather_object(rank, None if rank else objects)
    told = [None]
    dist.scatter_object_list(told, None if rank else ['a', 'b'])
    assert told == ['ab'[rank]]
    dist.recv(data, 0) if rank else dist.send(data, 1)
    own = [dist.new_group([number]) for number in range(2)][rank]
    if rank: dist.barrier(group=own)
    dist.all_reduce(data, group=own)
    if again == 0: dist.barrier()
    dist.monitored_barrier()
    # What has no size in common, or is called by PyTorch's own code.
    functional.all_reduce(data, 'sum', dist.group.WORLD) + 1
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for _ in range(2): model(torch.ones(rank + 1, 4)).sum().backward()
    with torch.inference_mode(): dist.all_reduce(torch.ones(3))
    dist.destroy_process_group()
";
    let (status, _, err) = with_torch(script, &["--ranks", "2"]);
    assert_eq!(status, 0, "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_ranks_find_each_other_if_the_port_that_the_script_gives_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!(
        "
import os, time, torch, torch.distributed as dist
os.environ['MASTER_PORT'] = '{}'
rank = int(os.environ['RANK'])
torch.cuda.set_device(rank)
for again in range(2):
    # The second group is not to find what the first one left in the store.
    if again and rank == 0: time.sleep(1)
    dist.init_process_group('nccl')
    own = torch.tensor([rank + 1], device='cuda')
    dist.all_reduce(own)
    assert own.item() == 3
    dist.barrier()
    dist.destroy_process_group()
",
        taken.local_addr().unwrap().port()
    );
    let (status, answer, err) = with_torch(&script, &["--ranks", "2", "--timeout", "5m"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["processes"].as_array().map(Vec::len), Some(2), "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_store_of_the_scripts_own_takes_another_port_if_its_port_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!(
        "
import os, torch, torch.distributed as dist
rank, port = int(os.environ['RANK']), {}
torch.cuda.set_device(rank)
store = dist.TCPStore('127.0.0.1', port, 2, rank == 0)
assert isinstance(store, dist.TCPStore) and store.port != port
if rank == 0: store.set('key', 'value')
assert store.get('key') == b'value'
again = dist.TCPStore('127.0.0.1', store.port, is_master=False)
assert again.get('key') == b'value'
dist.init_process_group('nccl', store=store, rank=rank, world_size=2)
own = torch.tensor([rank + 1], device='cuda')
dist.all_reduce(own)
assert own.item() == 3
",
        taken.local_addr().unwrap().port()
    );
    let (status, answer, err) = with_torch(&script, &["--ranks", "2", "--timeout", "5m"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["processes"].as_array().map(Vec::len), Some(2), "{err}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_ranks_find_the_first_one_also_when_it_is_done() {
    let script = "
import os, time, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
torch.cuda.set_device(rank)
dist.init_process_group('nccl')
torch.ones(1, device='cuda')
while rank and not os.path.exists('done'): time.sleep(0.01)
if rank: time.sleep(2)
dist.distributed_c10d._get_default_store().set(f'late {rank}', 'yes')
dist.destroy_process_group()
open('done', 'w').close()
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["processes"].as_array().map(Vec::len), Some(2), "{err}");
    // One that fails ends the others, which name it, and where they waited for it.
    let script = "
import os, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
torch.cuda.set_device(rank)
dist.init_process_group('nccl')
dist.barrier()
if rank == 1: os._exit(7)
dist.barrier()
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2"]);
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(status == 2 && error.contains("rank 1") && error.contains("`all_reduce` at script.py:8"), "{error} {err}");
    assert_eq!(answer["cause"]["ranks"], serde_json::json!([1]), "{}", answer["cause"]);
    assert!(answer["cause"]["text"].as_str().unwrap().starts_with("rank 1 failed first: "), "{}", answer["cause"]);
    // One that fails ends the run, though it has what the other waits for, and the other says where it was.
    let script = "
import os, time, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
torch.ones(1, device='cuda')
dist.init_process_group('nccl')
if rank == 0: raise ValueError('no luck')
time.sleep(1000)
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2"]);
    assert_eq!((status, &answer["error"]), (2, &"ValueError: no luck".into()), "{err}");
    assert_eq!(answer["cause"]["text"], "rank 0 failed first: ValueError: no luck");
    assert_eq!(answer["processes"][1]["place"], "script.py:7 <module>");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_rank_that_hangs_is_named_with_its_line() {
    // The clock is put forward once rank 0 has waited for some time.
    let script = "
import os, sys, threading, time, torch, torch.distributed as dist
rank, main, looks = int(os.environ['RANK']), threading.main_thread().ident, []
torch.cuda.set_device(rank)
dist.init_process_group('nccl')
dist.barrier()
def now():
    if rank == 0 and sys._current_frames()[main].f_code.co_name == '_wait_for':
        looks.append(1)
        if len(looks) > 1: open('waits', 'w').close()
    return 1e12 if os.path.exists('waits') else 0
time.time = now
if rank == 1:
    while True: time.sleep(1)
dist.barrier()
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2", "--timeout", "10m"]);
    assert_eq!((status, &answer["ended"]), (2, &"timeout".into()), "{err}");
    assert_eq!(
        answer["cause"],
        serde_json::json!({
            "ranks": [1],
            "text": "rank 1 hung at script.py:14 <module>; rank 0 waited for rank 1 in `all_reduce` at script.py:15 <module>",
        }),
        "{err}"
    );
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_processes_that_the_script_starts_leave_their_own_error() {
    let script = "
import torch
def work(number):
    torch.ones(1, device='cuda')
    raise ValueError('no luck')
if __name__ == '__main__': torch.multiprocessing.spawn(work, nprocs=1)
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!((status, &answer["error"]), (2, &"ValueError: no luck".into()), "{err}");
}

/// Ranks that the script starts itself, each of which runs `work(rank)` after it has met the others.
fn spawned(backend: &str, work: &str) -> String {
    let work = work.trim().replace('\n', "\n    ");
    format!(
        "
import os, signal, socket, time, torch, torch.distributed as dist
def run(rank, port):
    torch.ones(1, device=f'cuda:{{rank}}')
    torch.cuda.set_device(rank)
    dist.init_process_group('{backend}', init_method=f'tcp://127.0.0.1:{{port}}', rank=rank, world_size=2)
    dist.barrier()
    {work}
if __name__ == '__main__':
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(run, (port,), nprocs=2)
"
    )
}

/// Rank 1 of two that a script starts fails in this way over each of these backends: the answer names it and says `how`.
fn named_if_it_fails(cases: &[(&str, &str, &str)]) {
    for (backend, fails, how) in cases {
        let work = format!(
            "if rank == 1: {fails}\ndist.all_reduce(torch.ones(1, device='cuda' if '{backend}' == 'nccl' else 'cpu'))"
        );
        let (status, answer, err) = with_torch(&spawned(backend, &work), &["--gpus", "2", "--timeout", "5m"]);
        assert_eq!(status, 2, "{err}");
        assert_eq!(answer["cause"]["ranks"], serde_json::json!([1]), "{backend} {fails}: {answer} {err}");
        let text = answer["cause"]["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("rank 1 failed first: {how}")), "{text}");
        // The other one was ended while it waited, or failed because of it; it has left what it recorded in any case.
        let first = &answer["processes"][0];
        assert_eq!((&first["rank"], &first["world_size"]), (&0.into(), &2.into()), "{backend} {fails}: {err}");
    }
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_rank_that_the_script_starts_is_named_if_it_fails() {
    named_if_it_fails(&[("nccl", "raise ValueError('no luck')", "ValueError: no luck")]);
}

#[test]
#[ignore = "takes a minute, part of `make nightly`; needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn nightly_a_rank_that_the_script_starts_is_named_however_it_fails() {
    named_if_it_fails(&[
        ("gloo", "raise ValueError('no luck')", "ValueError: no luck"),
        ("nccl", "os._exit(7)", "os._exit(7)"),
        ("gloo", "os.kill(os.getpid(), signal.SIGKILL)", "signal: 9 (SIGKILL)"),
    ]);
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_rank_that_the_script_starts_is_named_if_it_hangs() {
    // The clock is put forward once rank 0 waits.
    let work = "
import sys, threading
main, looks = threading.main_thread().ident, []
def now():
    if rank == 0 and sys._current_frames()[main].f_code.co_name == '_wait_for':
        looks.append(1)
        if len(looks) > 1: open('waits', 'w').close()
    return 1e12 if os.path.exists('waits') else 0
time.time = now
while rank == 1: time.sleep(1)
dist.barrier()
";
    let (status, answer, err) = with_torch(&spawned("nccl", work), &["--gpus", "2", "--timeout", "10m"]);
    assert_eq!(status, 2, "{err}");
    let cause = &answer["cause"];
    assert_eq!(cause["ranks"], serde_json::json!([1]), "{cause} {err}");
    let text = cause["text"].as_str().unwrap();
    assert!(text.contains("rank 1 hung at script.py:") && text.contains("; rank 0 waited for rank 1 in "), "{text}");
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_the_error_of_the_rank_that_is_the_cause_leads() {
    let script = "
import os, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
torch.ones(1, device='cuda')
dist.init_process_group('gloo')
dist.barrier()
if rank == 1: raise ValueError('no luck')
dist.all_reduce(torch.ones(4))
";
    let (status, answer, err) = with_torch(script, &["--ranks", "2", "--timeout", "5m"]);
    assert_eq!((status, &answer["cause"]["ranks"]), (2, &serde_json::json!([1])), "{err}");
    let error = answer["error"].as_str().unwrap();
    assert!(error.starts_with("rank 1: ValueError: no luck; then rank 0: "), "{error}");
}

/// What ranks say that call these two collectives of gloo, after all have called one.
fn differently(of_first: &str, of_second: &str) -> Vec<String> {
    let script = format!(
        "
import os, torch, torch.distributed as dist
from torch.distributed import _functional_collectives as functional
rank = int(os.environ['RANK'])
torch.ones(1, device='cuda')
dist.init_process_group('gloo')
data = torch.ones(4)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
# The second step has the buckets that the first one made.
for _ in range(2): model(data).sum().backward()
if rank == 0:
    {of_first}
else:
    {of_second}
dist.all_reduce(data)
"
    );
    let (status, answer, err) = with_torch(&script, &["--ranks", "2", "--timeout", "5m"]);
    assert_eq!((status, &answer["ended"]), (2, &"error".into()), "{err}");
    let processes = answer["processes"].as_array().unwrap();
    processes.iter().filter_map(|process| process["error"].as_str().map(str::to_owned)).collect()
}

/// What the ranks called, which gloo itself does not compare, and the words that name both calls.
type Calls = (&'static str, &'static str, [&'static str; 2]);

fn are_compared(cases: &[Calls]) {
    for (of_first, of_second, words) in cases {
        let errors = differently(of_first, of_second);
        let named = errors.iter().any(|error| words.iter().all(|word| error.contains(word)));
        assert!(named, "{of_first} and {of_second}: {errors:?}");
    }
}

/// By the reducer of DDP, which is C++.
#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_collectives_on_the_host_are_compared_whoever_calls_them() {
    are_compared(&[(
        "dist.broadcast(data, 0)",
        "model(data).sum().backward()",
        ["`broadcast` at script.py:12", "`all_reduce` at script.py:14"],
    )]);
}

#[test]
#[ignore = "takes a minute, part of `make nightly`; needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn nightly_collectives_on_the_host_are_compared_with_their_elements() {
    are_compared(&[
        (
            "dist.barrier()",
            "dist.monitored_barrier()",
            ["`barrier` at script.py:12", "`monitored_barrier` at script.py:14"],
        ),
        (
            "dist.barrier()",
            "functional.all_reduce(data, 'sum', dist.group.WORLD)",
            ["`barrier` at script.py:12", "`all_reduce` at script.py:14"],
        ),
        (
            "dist.all_reduce(data)",
            "dist.all_reduce(torch.ones(5))",
            ["script.py:12 <module> with 4 elements of float32", "script.py:14 <module> with 5 elements of float32"],
        ),
        (
            "dist.all_gather([data, data.clone()], data)",
            "dist.all_gather([data.long(), data.long()], data.long())",
            ["script.py:12 <module> with 4 elements of float32", "script.py:14 <module> with 4 elements of int64"],
        ),
    ]);
}
