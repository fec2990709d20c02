//! Dry runs of scripts that read values: those that follow from the script, and those that only a GPU can compute.

use serde_json::Value;

use crate::dryrun::with_torch;

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_values_that_follow_from_the_program_are_known() {
    let script = "
import torch
lengths = torch.tensor([3, 5, 2]).cuda()
mask = torch.arange(6, device='cuda')[None] < lengths[:, None]
assert mask.sum().item() == 10 and int(lengths.max()) == 5 and lengths.tolist() == [3, 5, 2]
assert mask.nonzero().shape == (10, 2) and torch.ones(3, 6, device='cuda')[mask].shape == (10,)
assert torch.arange(3, device='cuda').repeat_interleave(lengths).shape == (10,)
assert torch.unique(torch.tensor([4, 4, 7]).cuda()).shape == (2,)
lengths += 1
lengths[0] = 9
assert lengths.cpu().tolist() == [9, 6, 3]
found, places, counts = torch.unique(torch.tensor([3, 3, 1, 1, 1, 2]).cuda(), return_inverse=True, return_counts=True)
assert (found.tolist(), places.tolist(), counts.tolist()) == ([1, 2, 3], [2, 2, 0, 0, 0, 1], [3, 1, 2])
scores, experts = torch.rand(8, 4, device='cuda').topk(2)
assert experts.flatten().bincount(minlength=4).tolist() == [4, 4, 4, 4]
shown = torch.ones(2, 600, 900, dtype=torch.int64)
shown[1, 300:] = 0
small = torch.nn.functional.interpolate(shown.cuda()[None].float(), size=(20, 30)).to(torch.bool)[0]
assert not small.all() and small.sum(dim=(1, 2)).tolist() == [600, 300]
loss = torch.randn(5, device='cuda').sum()
assert 0 < loss.item() < 1
assert (torch.randn(4, device='cuda') > 0).nonzero().shape == (4, 1)
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    let process = &answer["processes"][0];
    let what = |key: &str| -> Vec<String> {
        let rows = process[key].as_array().unwrap().iter();
        rows.map(|row| format!("{} at {}", row["what"].as_str().unwrap(), row["place"].as_str().unwrap())).collect()
    };
    assert_eq!(what("reads"), ["item at script.py:21 <module>"]);
    assert_eq!(what("assumed"), ["topk at script.py:14 <module>", "nonzero at script.py:22 <module>"]);
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_searches_and_loops_over_unknown_values_go_on() {
    let script = "
import torch
torch.manual_seed(0)
# A search for words: their end is a number that no unknown word is.
tokens, done = torch.randint(3, 90, (4, 1), device='cuda'), torch.zeros(4, dtype=torch.bool, device='cuda')
for length in range(20):
    chosen = torch.randn(4, 90, device='cuda').argmax(-1)
    tokens, done = torch.cat([tokens, chosen[:, None]], 1), done | (chosen == 2)
    if done.all(): break
assert tokens.shape == (4, 21), tokens.shape
# Nor is one that was chosen from the words of several beams at once.
word = torch.randn(4, 3 * 2000, device='cuda').topk(2)[1] % 2000
text = torch.cat([torch.zeros(4, 1, dtype=torch.int64, device='cuda'), word], 1)
assert not torch.isin(text[:, 1:], torch.tensor([0, 1, 2, 1999], device='cuda')).any()
# A line search takes its first step, and L-BFGS keeps its history.
weights = torch.randn(50, device='cuda', requires_grad=True)
search = torch.optim.LBFGS([weights], max_iter=6, history_size=10, line_search_fn='strong_wolfe')
def closure():
    search.zero_grad()
    loss = weights.square().sum()
    loss.backward()
    return loss
search.step(closure)
assert len(search.state[weights]['old_dirs']) == 5, len(search.state[weights]['old_dirs'])
# Losses fall, and are no reason to divide by 0.
losses = [torch.randn(5, device='cuda').sum().item() for _ in range(3)]
assert losses[0] > losses[1] > losses[2] > 0, losses
# A scaler of gradients finds them finite.
scaler, linear = torch.amp.GradScaler('cuda'), torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(linear.parameters())
scaler.scale(linear(torch.randn(2, 4, device='cuda')).sum()).backward()
scaler.step(optimizer); scaler.update()
assert len(optimizer.state) == 2
# A mask that a known one limits, and numbers that equal one of several.
near = (torch.randn(6, 6, device='cuda') < 1) & (torch.arange(6).cuda()[:, None] // 3 == torch.arange(6).cuda()[None] // 3)
assert near.nonzero().shape == (18, 2), near.nonzero().shape
level = torch.randn(8, device='cuda').abs().long()
assert [len(torch.where(level == k)[0]) for k in range(3)] == [8, 0, 0]
# Rows that differ, and choices of which there are so many at most.
rows = torch.tensor([[1, 2], [1, 2], [2, 1]]).cuda()
found, count = torch.unique(rows, dim=0, return_counts=True)
assert found.shape == (2, 2) and count.tolist() == [2, 1]
assert torch.unique(torch.randn(50, 5, device='cuda').argmin(1)).numel() == 5
# Of numbers that are drawn from so many, and of those that are taken from them, also of more than are followed one by one.
drawn = torch.randint(0, 1000, (1 << 23,), device='cuda')
assert torch.unique(torch.cat([drawn[torch.randperm(500, device='cuda')], drawn[:500]])).numel() == 632
assert torch.unique(torch.randint(7, (2000,), device='cuda') % 4).numel() == 4
drawn += 1
assert torch.unique(drawn).numel() == 1 << 23, 'written since'
# Of beams those that have a score go before those that have none.
scores = torch.cat([torch.full((2, 3), -1e9, device='cuda'), torch.randn(2, 6, 90, device='cuda').logsumexp(-1)], 1)
best, which = scores.topk(3)
assert which.min().item() >= 3 and (best > -1).all(), which.tolist()
assert scores.topk(3, largest=False)[1].max().item() < 3 and scores.topk(1, dim=0)[1].shape == (1, 9)
# Unknown words are below a high limit where one is read, and where a mask of them indexes.
words = torch.zeros(5, dtype=torch.int64, device='cuda')
words[:] = torch.randn(5, 50000, device='cuda').argmax(-1)
assert words[-1].item() < 40000 and torch.where(words >= 40000)[0].numel() == 0 and (words < 40000).nonzero().numel() == 5
# What is taken out of known numbers is some of all of them.
graphs = torch.arange(100).cuda() // 10
assert graphs[torch.randn(100, device='cuda').argsort()[:50]].max().item() == 9
# Of the edges of a graph, each node has as many as the others.
edges = torch.randint(0, 50, (1000,), device='cuda')
for degrees in (torch.bincount(edges, minlength=50), torch.zeros(50, device='cuda').scatter_add_(0, edges, torch.ones(1000, device='cuda'))):
    seeds = torch.randperm(50, device='cuda')[:10]
    assert torch.repeat_interleave(seeds, degrees[seeds].clamp(max=15).long()).numel() == 150
# Of numbers that are drawn evenly, as many are below a limit as chance has there.
hidden = torch.rand(8, 125, device='cuda') < 0.15
assert 140 <= hidden.nonzero().shape[0] <= 160 and 840 <= torch.ones(8, 125, device='cuda')[~hidden].numel() <= 860
# Of many, by chance: each time another number.
counts = [len(torch.arange(200000, device='cuda')[torch.rand(200000, device='cuda') >= 0.2]) for _ in range(3)]
assert all(159000 < count < 161000 for count in counts) and len(set(counts)) > 1, counts
tossed = torch.bernoulli(torch.full((4096,), 0.25, device='cuda')).bool()
assert 900 < tossed.nonzero().shape[0] < 1150
# Among many others elements are looked for by sorting both.
for drawn in (torch.randint(0, 9, (40,), device='cuda'), torch.randn(40, device='cuda').argsort()):
    assert torch.isin(drawn, torch.arange(500).cuda()).shape == (40,) and torch.isin(drawn, torch.arange(3).cuda()).shape == (40,)
# Standard deviations that nobody knows are ones; those that are known are looked at.
assert torch.distributions.Normal(torch.zeros(3, device='cuda'), torch.randn(3, device='cuda').exp()).sample().shape == (3,)
# Layers that learn their sizes from the first batch.
lazy = torch.nn.Sequential(torch.nn.LazyConv2d(8, 3), torch.nn.Flatten(), torch.nn.LazyLinear(4)).cuda()
assert lazy(torch.randn(2, 3, 8, 8, device='cuda')).shape == (2, 4)
# Chances that nobody knows sum up to 1, of a single case too.
torch.distributions.Categorical(torch.randn(1, 4, device='cuda').softmax(1)).sample()
# PyTorch's checks of arguments hold for what nobody knows, and look at what is known.
correlations = torch.distributions.LKJCholesky(4, torch.ones((), device='cuda'))
assert correlations.log_prob(correlations.sample((10,))).shape == (10,)
torch.distributions.Multinomial(10, torch.randn(2, 4, device='cuda').softmax(-1)).sample((3,))
try: torch.distributions.Normal(torch.zeros(3, device='cuda'), -torch.ones(3, device='cuda'))
except ValueError as error: assert 'scale' in str(error), error
else: raise AssertionError('a negative scale')
counts = torch.randint(1, 5, (9,), device='cuda')
assert torch.cov(torch.randn(4, 9, device='cuda'), fweights=counts, aweights=torch.rand(9, device='cuda')).shape == (4, 4)
segments = torch.randn(9, 2, device='cuda', requires_grad=True)
torch.segment_reduce(segments, 'sum', lengths=torch.bincount(counts, minlength=5), axis=0).sum().backward()
try: torch.segment_reduce(segments, 'sum', lengths=torch.tensor([4, 4]).cuda(), axis=0)
except RuntimeError as error: assert 'sum to' in str(error), error
else: raise AssertionError('segments that are shorter than the data')
try: torch.normal(torch.zeros(2, device='cuda'), torch.tensor([1.0, -1.0], device='cuda'))
except RuntimeError as error: assert 'std >= 0' in str(error), error
else: raise AssertionError('a negative deviation')
# What a function's own backward pass reads, in a thread of autograd's.
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lengths): ctx.lengths = lengths; return x * 2
    @staticmethod
    def backward(ctx, grad): assert ctx.lengths.tolist() == [4, 5]; return grad * 2, None
Own.apply(torch.randn(3, device='cuda', requires_grad=True), torch.tensor([4, 5]).cuda()).sum().backward()
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!(status, 0, "{err}");
    let assumed = answer["processes"][0]["assumed"].as_array().unwrap();
    let words = |row: &Value| format!("{} {}", row["place"].as_str().unwrap(), row["assumed"].as_str().unwrap());
    let words: Vec<String> = assumed.iter().map(words).collect();
    for said in ["script.py:9 <module> it is False", "script.py:32 <module> no gradient overflows"] {
        assert!(words.iter().any(|row| row == said), "{said}: {words:#?}");
    }
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_script_that_fails_by_a_value_runs_with_another() {
    // A divergence that is too large ends the epoch before the first loss; a mask of which nothing is set has no maximum.
    let divergence = "
import torch
weights = torch.randn(512, 512, device='cuda', requires_grad=True)
for batch in range(3):
    output = torch.randn(64, 512, device='cuda') @ weights
    divergence = (output.softmax(-1) - 1 / 512).abs().mean()
    if divergence.item() > 0.03: break
    loss = output.square().mean()
    loss.backward()
print(loss.item())
";
    let (status, answer, err) = with_torch(divergence, &[]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["otherwise"]["assumed"], "fraction=0.001", "{}", answer["otherwise"]);
    assert_eq!(answer["otherwise"]["error"], "NameError: name 'loss' is not defined");
    assert!(answer["ended"] == "exit" && answer.get("sandbox").is_none(), "{answer}");
    let answer_of_a_check = "
import torch
drawn = torch.randn(9, 9, device='cuda').argmax(-1)
if not (drawn[0] == 3).item(): raise ValueError('another was drawn')
";
    let (status, answer, err) = with_torch(answer_of_a_check, &[]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(answer["otherwise"]["assumed"], "script.py:4=true", "{}", answer["otherwise"]);
    let wrong = "
import torch
print(torch.randn(9, device='cuda').sum().item())
torch.zeros(3, device='cuda')[5]
";
    let (status, answer, err) = with_torch(wrong, &[]);
    assert_eq!(status, 2, "{err}");
    assert!(
        answer.get("otherwise").is_none() && answer["error"].as_str().unwrap().starts_with("IndexError"),
        "{answer}"
    );
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_sizes_that_values_decide_have_a_range_and_can_be_set_at_a_line() {
    let script = "
import torch
scores = torch.randn(1000, 1000, device='cuda')
kept = scores.flatten()[scores.flatten() > 2]
if torch.randn(1, device='cuda').sum() > 0.7:
    more = torch.zeros(1000, 1000, device='cuda')
";
    let (status, answer, err) = with_torch(script, &[]);
    assert_eq!((status, &answer["processes"][0]["could_differ"]), (0, &true.into()), "{err}");
    let requested = |answer: &Value| answer["peak"]["requested_bytes"].as_u64().unwrap();
    let few = answer["few"][0]["devices"][0]["peak_requested_bytes"].as_u64().unwrap();
    assert!(few * 2 < requested(&answer), "{few} of {}", requested(&answer));
    let (status, set, err) = with_torch(script, &["--assume", "script.py:4=0.01", "--assume", "script.py:5=true"]);
    assert_eq!((status, &set["few"]), (0, &Value::Null), "{err}");
    assert!(requested(&set) > few && requested(&set) < requested(&answer), "{} {few}", requested(&set));
    let assumed = &set["processes"][0]["assumed"];
    assert!(assumed.to_string().contains("it is True"), "{assumed}");
}
