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
    fits = (
        '  File "/srv/fit.py", line 30, in <module>\n    pl.Trainer(max_epochs=10).fit(model, data)\n'
        f'  File "{files}/torch/nn/modules/linear.py", line 125, in forward\n    return F.linear(input, self.weight, self.bias)\n'
    )
    told("made_and_fitted", "too-big", "shrink", fits + full("512.00 MiB", "23.65 GiB", "320.00 MiB", "23.02 GiB", "22.10 GiB", "412.00 MiB"))
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
    # What a forward pass joins ends with it.
    skip = (
        f'  File "/srv/diffusion/train.py", line 61, in step\n    noise = self.model(x, t)\n'
        '  File "/srv/diffusion/unet.py", line 214, in forward\n    h = th.cat([h, hs.pop()], dim=1)\n'
    )
    told("skip_connections", "too-big", "shrink", skip + full("512.00 MiB", "23.65 GiB", "320.00 MiB", "23.02 GiB", "22.10 GiB", "412.00 MiB"))
    replay = '  File "/srv/agent.py", line 77, in store\n    self.memory.append((state, action.to(device)))\n'
    told("grow_replay", "too-big", "bound-growth", replay + full("12.00 MiB", "7.79 GiB", "5.69 MiB", "7.62 GiB", "6.60 GiB", "112.64 MiB"), setting=".cpu()")
    steps = "".join(f"step {100 * n} loss 2.{9 - n}1 memory allocated: {n + 2}.13 GB\n" for n in range(7))
    told("grow_figures_before_failure", "too-big", "bound-growth", steps + full("96.00 MiB", "9.77 GiB", "51.25 MiB", "9.70 GiB", "9.11 GiB", "140.04 MiB"))
    told("grow_figures_alone", "warning", "bound-growth", "".join(f"epoch {n} done, RSS: {3123 + 1057 * n}.4 MB\n" for n in range(6)).rstrip("\n"), readings=6, first=printed("3123.4 MiB"), last=printed("8408.4 MiB"))
    ranks = "".join(f"[rank{r}]: step {n} memory {n + 9 if r else 30}.10 GB\n" for n in range(7) for r in (0, 1)).rstrip("\n")
    told("grow_on_one_rank", "warning", "bound-growth", ranks, readings=7, first=printed("9.10 GiB"))
    told("grow_polled", "warning", "bound-growth", "".join(f"2025-05-01 10:0{n}:00, {8123 + 300 * n} MiB, 24576 MiB\n" for n in range(6)).rstrip("\n"), each=300 << 20)


def shares():
    """Two shares of a GPU, of which neither fits, and requests that no pool holds."""
    low = "python -m sglang.launch_server --model-path m --mem-fraction-static 0.84\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    high = "python -m sglang.launch_server --model-path m --mem-fraction-static 0.85\n" + full("896.00 MiB", "44.40 GiB", "587.31 MiB", "43.81 GiB", "42.90 GiB", "219.92 MiB")
    told("sglang_between", "engine-share", "less-beside-pool", low + high)
    told("sglang_far_between", "engine-share", "between-shares", low.replace("0.84", "0.60") + high, setting="0.72")
    told("sglang_long_request", "kv-cache", "shorter-context", "[2026-03-11 10:00:10] max_total_num_tokens=18402, chunked_prefill_size=8192, max_running_requests=2048\n[2026-03-11 10:01:10] Input length (25431 tokens) exceeds the maximum allowed length (18396 tokens). Use a shorter input or enable --allow-auto-truncate.", length=25431, fits=18396)
    told("sglang_pool_with_room", "kv-cache", "newer-release", "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\nAvailable full tokens: 8070656 (full_available_size=7936 + full_evictable_size_=8062720)\nAvailable mamba: 760 (available_size=57 + component_evictable_size_=703)", tokens=8192, available=8070656)
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


def old(tried, total, allocated, free, reserved):
    """PyTorch's message up to 2.0."""
    return f"CUDA out of memory. Tried to allocate {tried} (GPU 0; {total} total capacity; {allocated} already allocated; {free} free; {reserved} reserved in total by PyTorch)"


def words_around():
    """What stands around a message decides."""
    told("never_fits_without_gaps", "never-fits", "split-request", f"RuntimeError: {old('64.20 GiB', '39.59 GiB', '13.01 GiB', '9.11 GiB', '27.40 GiB')}")
    mask = '  File "/opt/venv/lib/python3.12/site-packages/transformer_engine/pytorch/attention/utils.py", line 1359, in get_full_mask\n    attention_mask = torch.logical_or(\n'
    told("unfused_mask", "never-fits", "fused-attention", mask + full("2048.00 GiB", "79.18 GiB", "54.50 GiB", "24.15 GiB", "17.54 GiB", "170.46 MiB"))
    step = "    denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)\n"
    told("optimizer_line_alone", "too-big", "smaller-optimizer", f"one sample a batch\n\n{step}RuntimeError: {old('3.02 GiB', '31.75 GiB', '28.30 GiB', '1.80 GiB', '28.30 GiB')}")
    restores = (
        '  File "/home/u/lm/main.py", line 136, in resume\n    optimizer.load_state_dict(torch.load(path))\n'
        '  File "/home/u/lib/python3.6/site-packages/torch/serialization.py", line 119, in default_restore_location\n    result = fn(storage, location)\n'
        '  File "/home/u/lib/python3.6/site-packages/torch/serialization.py", line 99, in _cuda_deserialize\n    return storage_type(obj.size())\n'
    )
    told("restored_to_one_gpu", "outside-pytorch", "map-location", f"{restores}RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 11.17 GiB total capacity; 962.69 MiB already allocated; 17.19 MiB f")
    made = (
        f"{full('136.00 MiB', '23.65 GiB', '93.81 MiB', '21.98 GiB', '21.50 GiB', '2.30 MiB')}\nTraceback (most recent call last):\n"
        '  File "/srv/tune/workflow.py", line 38, in run\n    trainer = PairTrainer(\n  File "/srv/tune/trainer.py", line 23, in __init__\n    super().__init__(*args, **kwargs)\n'
    )
    told("trainer_is_made", "too-big", "less-weights", made)
    told("splatfacto_alone", "too-big", "bound-growth", "ns-train splatfacto stops after a fifth of its steps\n" + full("4.63 GiB", "44.31 GiB", "4.01 GiB", "39.67 GiB", "36.80 GiB", "1.27 GiB"), setting="max-gs-num")
    told("parts_take_turns", "too-big", "less-weights", "pipe.enable_model_cpu_offload() is on, the GPU is a T4\n" + full("90.00 MiB", "14.74 GiB", "12.12 MiB", "14.73 GiB", "14.30 GiB", "4.05 MiB"), setting="enable_sequential_cpu_offload")
    told("many_trained", "too-big", "fewer-parameters", 'O^O/ \\_/ \\    Batch size per device = 1 | Gradient accumulation steps = 8\n "-____-"     Trainable parameters = 1,361,753,856 of 5,661,833,328 (24.05% trained)\n' + full("1.25 GiB", "14.74 GiB", "720.12 MiB", "14.03 GiB", "13.70 GiB", "94.05 MiB"), setting="embed_tokens")
    told("expandable_already", "too-big", "shrink", full("250.00 MiB", "79.26 GiB", "104.75 MiB", "79.14 GiB", "74.77 GiB", "3.87 GiB") + "\n\nexpandable_segments was already True in this run")


def words_of_others():
    """The same for engines, libraries and the host."""
    xla = "    Buffer 15:\n        Size: 506.25MiB\n        XLA Label: custom-call\n        Shape: f32[1,64,1080,1920]\n\njaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED"
    told("xla_without_numbers", "too-big", "shrink", xla)
    trial = "CUDA out of memory at the start\n\n(VllmWorkerProcess pid=77) WARNING 08-04 16:54:49 [profiling.py:247] The sequence length used for profiling is too short to hold the multi-modal embeddings in the worst case (180224 tokens in total, out of which {'image': 163840, 'video': 16384} are reserved)\n(VllmWorkerProcess pid=78) ERROR 08-04 16:54:59 [multiproc_worker_utils.py:238] Exception in worker VllmWorkerProcess while processing method determine_num_available_blocks."
    told("vllm_trial_without_numbers", "too-big", "fewer-items", trial, setting="--limit-mm-per-prompt")
    told("sglang_weights_cut", "kv-cache", "raise-share", "Load weight end. quant=fp8, fmt=e4m3, avail mem=12.25 GB, mem usage=125.65 GB.\nValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88.", setting="0.92")
    gpu = "UserWarning: The installed version of bitsandbytes was compiled without GPU support. 8-bit optimizers, 8-bit multiplication, and GPU quantization are unavailable.\nValueError:\n    Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit\n    the quantized model."
    told("library_without_gpu", "not-memory", "install-gpu-build", gpu)
    client = '  File "a.py", line 21, in <module>\n    reply = client.generate(prompt)\n  File "/home/u/lib/python3.8/site-packages/text_generation/client.py", line 153, in generate\n    raise parse_error(resp.status_code, payload)\ntext_generation.errors.GenerationError: Request failed during generation: Server error: '
    told("tgi_request_fails", "too-big", "lower-share", client + full("42.00 MiB", "39.39 GiB", "31.94 MiB", "39.23 GiB", "37.21 GiB", "44.10 MiB")[len("torch.OutOfMemoryError: ") :], setting="--cuda-memory-fraction")
    told("trtllm_large_batch", "engine-share", "fewer-sequences", "trtllm-build --max_batch_size 192 --max_input_len 2048\n[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/code/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)")
    told("ollama_far_too_large", "host-memory", "smaller-model", "Error: model requires more system memory (164.8 GiB) than is available (13.4 GiB)", needed=printed("164.8 GiB"))
    told("killed_while_loading", "host-memory", "load-in-parts", "Loading the model...\n[Sun Mar 24 23:54:53 2024] Out of memory: Killed process 6154 (python) total-vm:18109076kB, anon-rss:14095848kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:29036kB oom_score_adj:0", pid=6154, raw_kb=14095848)


def reports():
    """Reports and consoles that cut or turn a traceback."""
    loader = (
        "# ComfyUI Error Report\n## Error Details\n- **Node Type:** UNETLoader\n- **Exception Type:** torch.OutOfMemoryError\n- **Exception Message:** Allocation on device\n## Stack Trace\n"
        '  File "C:\\ai\\ComfyUI\\execution.py", line 327, in execute\n    output_data, output_ui = get_output_data(obj, input_data_all)\n'
        '  File "C:\\ai\\ComfyUI\\comfy\\sd.py", line 845, in load_diffusion_model_state_dict\n    model = model_config.get_model(new_sd, "")\n'
        '  File "C:\\ai\\python\\Lib\\site-packages\\torch\\nn\\modules\\linear.py", line 105, in __init__\n    torch.empty((out_features, in_features), **factory_kwargs)\n'
    )
    told("report_of_loader", "unknown", "offload", loader, setting="--lowvram")
    box = (
        "│ /home/u/lib/python3.10/site-packages/transformers/modeling_utils.py:698 in        │\n│ _load_state_dict_into_meta_model                                                  │\n"
        "│ ❱  698 │   │   │   set_module_tensor_to_device(model, param_name, param_device)     │\n"
    )
    told("box_breaks_function", "too-big", "less-weights", f"{box}OutOfMemoryError: {old('50.00 MiB', '23.68 GiB', '23.05 GiB', '40.88 MiB', '23.10 GiB')}")
    console = (
        '[Unload] Trying to free 3369.09 MB for cuda:0 with 1 models keep loaded\nException in thread MemMon:\nTraceback (most recent call last):\n  File "D:\\apps\\stable-diffusion\\Forge_2024\\webui\\modules\\memmon.py", line 34, i\nn cuda_mem_get_info\n'
        '    return torch.cuda.mem_get_info(index)\n  File "D:\\apps\\stable-diffusion\\Forge_2024\\system\\python\\lib\\site-packages\\torc\nh\\cuda\\memory.py", line 663, in mem_get_info\n'
        "    return torch.cuda.cudart().cudaMemGetInfo(device)\nRuntimeError: CUDA error: out of memory"
    )
    told("console_cuts_frames", "outside-pytorch", "offload", console, setting="--always-low-vram")
    spoken = "with --mem-fraction-static at 0.85 there is a CUDA out of memory error, and at 0.84 this:\n\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    told("sglang_shares_told", "engine-share", "less-beside-pool", spoken, setting="--cuda-graph-max-bs")
    trial = (
        "INFO 05-23 09:31:24 [gpu_model_runner.py:1347] Model loading took 18.1450 GiB and 40.766484 seconds\nERROR 05-23 09:31:47 [core.py:396] Traceback (most recent call last):\n"
        'ERROR 05-23 09:31:47 [core.py:396]   File "/home/u/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 1600, in profile_run\nERROR 05-23 09:31:47 [core.py:396]     hidden_states = self._dummy_run(self.max_num_tokens)\n'
        'ERROR 05-23 09:31:47 [core.py:396]   File "/home/u/lib/python3.12/site-packages/vllm/model_executor/layers/activation.py", line 63, in forward_cuda\nERROR 05-23 09:31:47 [core.py:396]     out = torch.empty(output_shape, dtype=x.dtype, device=x.device)\n'
        f"ERROR 05-23 09:31:47 [core.py:396] {full('2.32 GiB', '23.68 GiB', '1.99 GiB', '21.66 GiB', '20.05 GiB', '1.15 GiB')}"
    )
    told("vllm_trial_of_layers", "too-big", "fewer-batched-tokens", trial, setting="--max-num-batched-tokens")
    told("refused_nearly_full", "refused", "free-outside", f"RuntimeError: {old('246.00 MiB', '31.75 GiB', '26.00 GiB', '460.38 MiB', '27.88 GiB')}")


def requests():
    """Requests that are too long, and what asks for more than any device has."""
    told("sglang_beyond_context", "limit", "shorter-context", "ValueError: The input (85050 tokens) is longer than the model's context length (32768 tokens).", length=85050, context=32768)
    told("vllm_beyond_length", "limit", "shorter-context", "ValueError: The decoder prompt (length 44) is longer than the maximum model length of 16. Make sure that `max_model_len` is no smaller than the number of text tokens.", length=44, limit=16)
    warm_up = '  File "/opt/neuron/lib/python3.11/site-packages/transformers/modeling_utils.py", line 6100, in caching_allocator_warmup\n    _ = torch.empty(byte_count // factor, dtype=torch.float16, device=device, requires_grad=False)\n'
    told("neuron_warm_up", "too-big", "less-weights", warm_up + "RuntimeError: NRT allocation failed for size 233658313344 (OOM)", raw=233658313344)
    told("larger_than_most", "too-big", "split-request", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 218.96 GiB\n\nthe card has 8gb")
    stored = '  File "C:\\src\\agent.py", line 77, in cache\n    next_state = torch.FloatTensor(next_state).cuda() if self.use_cuda else torch.FloatTensor(next_state)\n'
    moved = "│ ❱  905 │   │   │   return t.to(device, dtype if t.is_floating_point() or t.i │\n╰───────────────────────────────────────────────────────────────╯\n"
    told("module_line_alone", "too-big", "less-weights", f"{moved}RuntimeError: {old('162.00 MiB', '79.35 GiB', '77.00 GiB', '146.19 MiB', '77.01 GiB')}")
    free = "".join(f"               total        used        free      shared  buff/cache   available\nMem:           125Gi       {20 + 21 * step}Gi       {100 - 21 * step}Gi       1.0Gi       5.0Gi       {103 - 21 * step}Gi\n" for step in range(5))
    told("free_grows", "warning", "bound-growth", free, readings=5, each=21 << 30)
    told("sglang_pool_with_room", "kv-cache", "newer-release", "#running-req: 5, #token: 1938, token usage: 0.24, #queue-req: 0\nRuntimeError: Prefill out of memory. This error should never happen")
    told("sglang_pool_leak", "not-memory", "newer-release", "UserWarning: Warning: available_size=38896, max_total_num_token=49196\nKV cache pool leak detected!")
    told("llama_cells", "kv-cache", "raise-limit", "update_slots : failed to find free space in the KV cache, retrying with smaller n_batch = 1\nupdate_slots : failed to decode the batch, n_batch = 1, ret = 1")
    images = '  File "/home/u/nerfstudio/data/datamanagers/full_images_datamanager.py", line 334, in next_train\n    data["image"] = data["image"].to(self.device)\n'
    told("splatfacto_images", "too-big", "offload", "ns-train splatfacto with 1116 large images\n" + images + full("96.00 MiB", "79.15 GiB", "34.12 MiB", "79.11 GiB", "78.31 GiB", "170.41 MiB"), setting="cache-images")
    sums = "\n\nTime taken: 9.1 sec.\nA: 2.82 GB, R: 2.90 GB, Sys: 3.8/3.8125 GB (99.7%)"
    told("webui_sums", "too-big", "offload", f"OutOfMemoryError: {old('58.00 MiB', '3.81 GiB', '2.82 GiB', '13.44 MiB', '2.90 GiB')}{sums}", setting="--medvram")
    epochs = "".join(f"epoch {n} gpu_mem {2.31 + 2.2 * n:.2f}G\n" for n in range(5))
    told("grow_before_failure", "too-big", "bound-growth", f"{epochs}RuntimeError: {old('26.00 MiB', '12.00 GiB', '10.83 GiB', '0 bytes', '11.12 GiB')}")
    told("experience_on_gpu", "too-big", "bound-growth", f"{stored}RuntimeError: {old('2.00 MiB', '8.00 GiB', '7.12 GiB', '0 bytes', '7.13 GiB')}")


def stages():
    """What a script moves whole, what a trainer predicts, and what waits in the host's memory."""
    script = (
        "pipe = SomePipeline.from_pretrained(\n    \"org/large-model\",\n    torch_dtype=torch.float16\n    ).to(\"cuda\")\n\npipe.enable_model_cpu_offload()\n"
        "pipe.vae.enable_tiling()\n"
    )
    told("whole_before_offload", "too-big", "move-parts", script + full("50.00 MiB", "15.99 GiB", "12.00 MiB", "15.90 GiB", "15.45 GiB", "128.16 MiB"), setting="enable_model_cpu_offload")
    one_line = "pipeline = SomePipeline.from_pretrained(name, torch_dtype=dtype).to('cuda:0')\npipeline.enable_sequential_cpu_offload()\npipe.enable_model_cpu_offload()\n"
    told("whole_in_one_line", "too-big", "move-parts", one_line + full("90.00 MiB", "14.74 GiB", "12.12 MiB", "14.73 GiB", "14.30 GiB", "4.05 MiB"))
    # What is commented out, and a tensor that moves, are no move of the pipeline.
    parts = "# pipe.to(\"cuda\")\npipe.enable_model_cpu_offload()\nlatents = latents.to(\"cuda\")\n"
    told("parts_with_comment", "too-big", "less-weights", parts + full("90.00 MiB", "14.74 GiB", "12.12 MiB", "14.73 GiB", "14.30 GiB", "4.05 MiB"), setting="enable_sequential_cpu_offload")
    predict = (
        '[rank3]:   File "/srv/LLaMA-Factory/src/llamafactory/train/tuner.py", line 69, in _training_function\n'
        "[rank3]:     run_sft(model_args, data_args, training_args, finetuning_args, generating_args, callbacks)\n[rank3]: "
    )
    filled = full("270.00 MiB", "23.65 GiB", "208.06 MiB", "23.44 GiB", "22.87 GiB", "6.23 MiB")
    told("predict_by_trainer", "too-big", "less-weights", "training works, Evaluate & Predict does not\n" + predict + filled, setting="vllm_infer")
    told("predict_switched_on", "too-big", "less-weights", "do_predict: true\n" + predict + filled, setting="vllm_infer")
    told("predict_switched_off", "too-big", "shrink", "do_predict: false\n" + predict + filled, setting="per_device_train_batch_size")
    totals = (
        "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : {}\nRequested               : {}\n"
        "Device limit            : {}\nFree (according to CUDA): {}\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB"
    )
    headline = "Allocation on device 0 would exceed allowed memory. (out of memory) what does it mean?\n\n"
    told("dialogue_and_log", "too-big", "shrink", headline + totals.format("15.16 GiB", "512.00 KiB", "15.99 GiB", "0 bytes"), setting="--lowvram")
    told("asynchronous_rest", "outside-pytorch", "free-outside", totals.format("6.89 GiB", "320.00 MiB", "23.69 GiB", "2.94 MiB"), setting="CUDA_VISIBLE_DEVICES")
    inverse = '  File "/srv/stitch.py", line 132, in __init__\n    pose = torch.inverse(calibration)\nRuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`'
    told("solver_set_up", "unknown", "look-at-device", inverse)
    waits = "loaded partially; 4910.36 MB usable, 4910.36 MB loaded, 2888.31 MB offloaded, lowvram patches: 0\nAttempting to release mmap (398)\n!!! Exception during processing !!! CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    told("part_waits_on_host", "outside-pytorch", "less-pinned-memory", waits, setting="--disable-pinned-memory")


def around():
    """What stands around an error decides: other stages, what went before, the system, and when it fails."""
    stages = (
        "(Worker pid=77) [Stage-0] ERROR 03-12 08:22:28 [executor.py:800] ValueError: Free memory on device cuda:0 (111.99/139.8 GiB) on startup is less than desired GPU "
        "memory utilization (0.95, 132.81 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
        "[Stage-1] INFO 03-12 08:22:28 [runner.py:133] Model loading took 26.4738 GiB and 13.178609 seconds"
    )
    told("stages_share_a_gpu", "other-process", "lower-share", stages, setting="0.79")
    wakes = 'POST http://10.0.0.7:8006/wake_up returned status 500: {"error":{"message":"Call to wake_up method failed: CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:163"}}'
    told("server_wakes", "engine-share", "end-process", wakes)
    used = "[INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 30.14 GB, percent = 8.3%\n[ERROR] failed (exitcode: -9) local_rank: 0 (pid: 438) of binary: /opt/bin/python"
    told("killed_with_room", "host-memory", "look-at-kernel", used, setting="memory.max")
    host = "llama runner terminated: ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 9925767168 alloc_tensor_range: failed to allocate CUDA_Host buffer of size 9925767168"
    told("host_buffer_on_windows", "host-memory", "larger-page-file", f"{host}\n\nOS\nWindows\nGPU\nNvidia", raw=9925767168)
    told("host_buffer_elsewhere", "host-memory", "smaller-model", f"{host}\n\nattention has sliding windows", raw=9925767168)
    step = "gpu_cudamallocasync_allocator.cc:361] gpu_async_1 cuMemAllocAsync failed to allocate 1225195446464 bytes: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory\n Reported by CUDA: Free memory/Total memory: 22635544576/85095874560"
    told("jax_step_of_a_tebibyte", "never-fits", "split-request", step, raw=1225195446464, setting="micro-batches")
    reduce = '  File "/srv/sglang/srt/distributed/device_communicators/custom_all_reduce.py", line 307, in register_graph_buffers\n    ops.register_graph_buffers(self._ptr, handles, offsets)\nRuntimeError: invalid argument'
    told("all_reduce_of_graphs", "not-memory", "other-kernel", reduce, setting="--disable-custom-all-reduce")
    down = (
        '  File "/opt/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 2168, in destroy_process_group\n    _shutdown_backend(pg)\n'
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:133, unhandled cuda error, NCCL version 2.21.5\nLast error:\nCuda failure 'out of memory'"
    )
    told("nccl_taken_down", "outside-pytorch", "look-before", down)
    small = "llama_new_context_with_model: pipeline parallelism enabled (n_copies=4)\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 144.00 MiB on device 4: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to allocate CUDA4 buffer of size 150995968\nllama_new_context_with_model: failed to allocate compute buffers"
    told("smallest_of_five", "too-big", "other-split", small, setting="3,3,3,3,2")
    blocks = (
        "RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.85 GiB (GPU  0; 15.56 GiB total capacity; 0 bytes already "
        "allocated; 0 bytes reserved in total by PyTorch)\nRuntimeError: XPU out of memory. Tried to allocate 1.71 GiB (GPU 0; 15.56 GiB total capacity; 0 bytes already allocated; 0 bytes "
        "reserved in total by PyTorch)"
    )
    told("blocks_below_the_limit", "refused", "split-request", blocks)
    told("same_epoch", "unknown", "find-batch", "training on the small set stops at the same epoch every time\ntorch.OutOfMemoryError: CUDA out of memory")
    pages = "I convert a book with marker pdf\nRuntimeError: MPS backend out of memory (MPS allocated: 7.23 GB, other allocations: 1.54 GB, max allowed: 9.07 GB). Tried to allocate 896.00 MB on private pool."
    told("pages_at_once", "limit", "shrink", pages, setting="RECOGNITION_BATCH_SIZE")
    nothing_free = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.70 GiB. GPU 0 has a total capacty of 6.00 GiB of which 0 bytes is free. Of the allocated memory 2.93 GiB is allocated by PyTorch, and 2.30 GiB is reserved by PyTorch but unallocated."
    told("gaps_with_nothing_free", "fragmentation", "max-split-size", nothing_free)
    cut = "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7 has a total capacity of 95.00"
    told("graphs_cut", "engine-share", "lower-share", cut)


def of_families():
    """All of them."""
    around()
    stages()
    requests()
    reports()
    words_around()
    words_of_others()
    loading()
    growing()
    shares()
    settings()
    frameworks()
    places()
    sizes()
    mappings()
