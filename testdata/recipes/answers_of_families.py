"""The logs of testdata/messages/answers of failures whose words mislead: tables of `make_messages.py`.

A model that is still being loaded, memory that grows over a run, settings that cannot be read, calls that the driver refuses as
invalid, sizes that are no sizes. Amounts and punctuation are as users posted them or as the releases print them; the rest is made up.
"""

from answers_of_logs import told
from message_amounts import printed


def full(tried, total, free, process, allocated, unallocated):
    """PyTorch's message since 2.2."""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of {total} of which {free} is free. Including "
        f"non-PyTorch memory, this process has {process} memory in use. Of the allocated memory {allocated} is allocated by PyTorch, and {unallocated} is "
        "reserved by PyTorch but unallocated."
    )


def loading():
    """Weights on their way to the GPU: no batch is there yet."""
    files = "/home/u/lib/python3.11/site-packages"
    warm_up = (
        f'  File "/home/u/chat.py", line 14, in <module>\n    model = AutoModelForCausalLM.from_pretrained(name, device_map="cuda:0")\n'
        f'  File "{files}/transformers/modeling_utils.py", line 4793, in _load_pretrained_model\n'
        "    caching_allocator_warmup(model_to_load, expanded_device_map, factor=2 if hf_quantizer is None else 4)\n"
        f'  File "{files}/transformers/modeling_utils.py", line 5803, in caching_allocator_warmup\n'
        "    _ = torch.empty(byte_count // factor, dtype=torch.float16, device=device, requires_grad=False)\n"
    )
    told("load_in_one_block", "never-fits", "less-weights", warm_up + full("27.51 GiB", "23.64 GiB", "23.20 GiB", "438.00 MiB", "0 bytes", "0 bytes"))
    reads = (
        '  File "/srv/infer.py", line 40, in main\n    weights = load_file(args.checkpoint, device="cuda")\n'
        f'  File "{files}/safetensors/torch.py", line 383, in load_file\n    result[k] = f.get_tensor(k)\n'
    )
    told("load_checkpoint_on_gpu", "too-big", "map-location", reads + full("90.00 MiB", "15.77 GiB", "46.12 MiB", "15.72 GiB", "15.31 GiB", "38.50 MiB"))
    moves = '  File "/srv/train.py", line 77, in main\n    self.model.to(device)\n'
    told("load_by_a_call", "too-big", "less-weights", moves + full("150.00 MiB", "7.79 GiB", "110.69 MiB", "7.62 GiB", "7.40 GiB", "71.68 MiB"))


def growing():
    """Memory that grows until there is no more."""
    splats = (
        "Training progress:  38%|###8      | 11400/30000 [13:34<33:08, 9.35it/s, Loss=0.0681210, Points=5822411]\n"
        '  File "/srv/gs/scene/gaussian_model.py", line 383, in densify_and_clone\n    self.densification_postfix(new_xyz, new_opacities)\n'
        '  File "/srv/gs/scene/gaussian_model.py", line 325, in cat_tensors_to_optimizer\n'
        '    stored_state["exp_avg"] = torch.cat((stored_state["exp_avg"], torch.zeros_like(extension_tensor)), dim=0)\n'
    )
    told("grow_gaussians", "too-big", "bound-growth", splats + full("978.00 MiB", "23.65 GiB", "630.00 MiB", "22.71 GiB", "20.10 GiB", "2.12 GiB"), setting="--densify_grad_threshold")
    replay = '  File "/srv/agent.py", line 77, in store\n    self.memory.append((state, action.to(device)))\n'
    told("grow_replay", "too-big", "bound-growth", replay + full("12.00 MiB", "7.79 GiB", "5.69 MiB", "7.62 GiB", "6.60 GiB", "112.64 MiB"), setting=".cpu()")
    steps = "".join(f"step {100 * n} loss 2.{9 - n}1 memory allocated: {n + 2}.13 GB\n" for n in range(7))
    told("grow_figures_before_failure", "too-big", "bound-growth", steps + full("96.00 MiB", "9.77 GiB", "51.25 MiB", "9.70 GiB", "9.11 GiB", "140.04 MiB"))
    told("grow_figures_alone", "warning", "bound-growth", "".join(f"epoch {n} done, RSS: {3123 + 1057 * n}.4 MB\n" for n in range(6)).rstrip("\n"), readings=6, first=printed("3123.4 MiB"), last=printed("8408.4 MiB"))
    told("grow_polled", "warning", "bound-growth", "".join(f"2025-05-01 10:0{n}:00, {8123 + 300 * n} MiB, 24576 MiB\n" for n in range(6)).rstrip("\n"), each=300 << 20)


def shares():
    """Two shares of a GPU, of which neither fits, and requests that no pool holds."""
    low = "python -m sglang.launch_server --model-path m --mem-fraction-static 0.84\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    high = "python -m sglang.launch_server --model-path m --mem-fraction-static 0.85\n" + full("896.00 MiB", "44.40 GiB", "587.31 MiB", "43.81 GiB", "42.90 GiB", "219.92 MiB")
    told("sglang_between", "engine-share", "less-beside-pool", low + high)
    told("sglang_far_between", "engine-share", "between-shares", low.replace("0.84", "0.60") + high, setting="0.72")
    told("sglang_long_request", "kv-cache", "shorter-context", "[2026-03-11 10:00:10] max_total_num_tokens=18402, chunked_prefill_size=8192, max_running_requests=2048\n[2026-03-11 10:01:10] Input length (25431 tokens) exceeds the maximum allowed length (18396 tokens). Use a shorter input or enable --allow-auto-truncate.", length=25431, fits=18396)
    told("sglang_pool_with_room", "kv-cache", "fewer-requests", "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\nAvailable full tokens: 8070656 (full_available_size=7936 + full_evictable_size_=8062720)\nAvailable mamba: 760 (available_size=57 + component_evictable_size_=703)", tokens=8192, available=8070656)
    told("vllm_long_prompt", "kv-cache", "shorter-context", "WARNING 03-11 10:11:12 scheduler.py:699] Input prompt (40960 tokens) is too long and exceeds the capacity of block_manager", length=40960)
    told("tgi_long_request", "limit", "shorter-context", "Error: Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`", limit=4096, inputs=4000, new=512)


def settings():
    """Settings that a program could not read."""
    told("ollama_overhead_with_a_unit", "too-big", "fix-setting", '2025/01/16 04:29:39 config.go:215: WARN invalid environment variable, using default key=OLLAMA_GPU_OVERHEAD value=8G default=0\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 9853.40 MiB on device 0: cudaMalloc failed: out of memory', setting="8589934592")
    told("torch_unknown_setting", "not-memory", "fix-setting", '  File "/home/u/lib/python3.10/site-packages/torch/cuda/__init__.py", line 247, in _lazy_init\n    torch._C._cuda_init()\nRuntimeError: Unrecognized CachingAllocator option: expandable_segments')
    told("torch_wrong_separator", "not-memory", "fix-setting", "RuntimeError: Error parsing CachingAllocator settings, expected :")


def frameworks():
    """TensorFlow and JAX print with the same allocator."""
    conv = "E1023 W external/local_xla/xla/tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 4.00GiB (rounded to 4294967296)requested by op gradient_tape/unet/Conv2DBackpropFilter\n"
    error = "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,512,512,64] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]"
    told("tensorflow_of_xla", "too-big", "shrink", conv + error, setting="mixed_float16")
    told("tensorflow_warning", "warning", "shrink", "W tensorflow/core/common_runtime/bfc_allocator.cc:246] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.02GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.", size=printed("1.02 GiB"))


def places():
    """A thread that only looks at the memory."""
    monitor = (
        "[Unload] Trying to free 3369.09 MB for cuda:0 with 1 models keep loaded ... Current free memory is 3506.33 MB ... Done.\nException in thread MemMon:\n"
        '  File "threading.py", line 1016, in _bootstrap_inner\n'
        '  File "D:\\apps\\webui\\modules\\memmon.py", line 34, in cuda_mem_get_info\n    return torch.cuda.mem_get_info(index)\n'
        '  File "D:\\apps\\system\\python\\lib\\site-packages\\torch\\cuda\\memory.py", line 663, in mem_get_info\n    return torch.cuda.cudart().cudaMemGetInfo(device)\n'
        "RuntimeError: CUDA error: out of memory"
    )
    told("forge_monitor", "outside-pytorch", "offload", monitor, setting="GPU Weights")


def sizes():
    """Sizes that no computer has."""
    told("size_of_no_computer", "never-fits", "split-request", full("87001.23 GiB", "23.65 GiB", "20.00 GiB", "3.71 GiB", "3.10 GiB", "120.00 MiB"))
    told("size_of_no_host", "never-fits", "split-request", "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4585490524328388608 bytes. Error code 12 (Cannot allocate memory)", raw=4585490524328388608)
    told("size_below_zero", "never-fits", "split-request", "RuntimeError: Trying to create tensor with negative dimension -1094795586: [-1094795586]", dimension=1094795586)
    told("size_of_numpy", "never-fits", "split-request", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 EiB for an array with shape (1000000000, 1000000000) and data type float64")


def mappings():
    """Calls with an invalid argument."""
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 7 has a total capacity of 79.11 GiB of which 66.43 GiB is free. Including non-PyTorch memory, this process has 0 bytes memory in use. Of the allocated memory 8.51 GiB is allocated by PyTorch, and 856.16 MiB is reserved by PyTorch but unallocated."
    told("cumem_invalid", "not-memory", "newer-release", "CUDA Error: invalid argument at /workspace/csrc/cumem_allocator.cpp:119\n" + message)
    told("expandable_invalid", "not-memory", "drop-expandable-segments", "RuntimeError: CUDA driver error: invalid argument\nException raised from mapAndSetAccess at /pytorch/c10/cuda/CUDACachingAllocator.cpp:540 (most recent call first):")


def of_families():
    """All of them."""
    loading()
    growing()
    shares()
    settings()
    frameworks()
    places()
    sizes()
    mappings()
