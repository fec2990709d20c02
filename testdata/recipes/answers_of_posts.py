"""The logs of testdata/messages/answers as people post them: a few sentences, a command, and a part of the error.

Amounts and punctuation of messages are as users posted them or as the releases print them; sentences, names and paths are made up.
"""

from answers_of_families import full
from answers_of_logs import told

PACKAGES = "/opt/env/lib/python3.10/site-packages"


def wordings():
    """Messages in another case, and numbers that are no request."""
    lower = (
        'training stops with "cuda out of memory. tried to allocate 30.00 mib (gpu 0; 8.00 gib total capacity; 7.04 gib already allocated; 0 bytes free; '
        '7.28 gib reserved in total by pytorch) if reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation. see '
        'documentation for memory management and pytorch_cuda_alloc_conf"'
    )
    told("lower_case", "too-big", "shrink", f"My laptop has a 4060ti 8gb and 64gigs of ram, and \"cuda out of memory\" comes after an hour.\n\n{lower}")
    told("lower_case_with_sd_scripts", "too-big", "offload", f"A LoRA for SDXL with Kohya_ss, to be used in fooocus later, on 8gb.\n\n{lower}", setting="--gradient_checkpointing")
    capitals = full("2.50 GiB", "23.65 GiB", "1.10 GiB", "22.50 GiB", "21.90 GiB", "112.40 MiB").upper()
    told("capitals", "too-big", "shrink", capitals)
    told("numbers_of_a_gpu", "too-big", "shrink", "Since yesterday I get an OOM error on my GPU, which has 24 GB of VRAM, and 3.5 GB are in use before I start.", size=None)


def words_alone():
    """The failure in a sentence, and a traceback whose end is cut away."""
    joins = (
        "Training works for this example, but as soon as it comes to the evaluation I get CUDA out of memory. With `eval_accumulation_steps=20` it is the same.\n"
        '  File "/home/u/qa/run_qa_seq2seq.py", line 702, in <module>\n    main()\n'
        '  File "/home/u/qa/run_qa_seq2seq.py", line 655, in main\n    metrics = trainer.evaluate(max_length=max_length, metric_key_prefix="eval")\n'
        f'  File "{PACKAGES}/transformers/trainer.py", line 2515, in evaluation_loop\n'
        "    preds_host = logits if preds_host is None else nested_concat(preds_host, logits, padding_index=-100)\n"
        f'  File "{PACKAGES}/transformers/trainer_pt_utils.py", line 97, in nested_concat\n'
        "    return type(tensors)(nested_concat(t, n, padding_index=padding_index) for t, n in zip(ten"
    )
    told("evaluation_without_numbers", "too-big", "evaluate-in-parts", joins, setting="preprocess_logits_for_metrics", absent="checkpointing")
    told("killed_between_shards", "host-memory", "load-in-parts", "demo.py ends on `Loading checkpoint shards: 61%` and all it says is `killed`.\n\n$ python3 demo.py --load_8bit --base_model vicuna-7b")
    pins = (
        "[BUG] OOM in WSL2 as soon as the optimizer is offloaded, with 90 % of the RAM free\n"
        "[2024-02-11 09:14:02,118] [INFO] [utils.py:834:see_memory_usage] CPU Virtual Memory:  used = 4.98 GB, percent = 9.8%\n"
        "│ /opt/conda/lib/python3.8/site-packages/deepspeed/accelerator/cuda_accelerator.py:217 in          │\n"
        "│ pin_memory                                                                                       │\n"
        "│                                                                                                  │\n"
        "│   216 │   def pin_memory(self, tensor):                                                          │\n"
        "│ ❱ 217 │   │   return tensor.pin_memory()                                                         │\n"
    )
    told("pinned_in_wsl", "host-memory", "less-pinned-memory", pins, setting='"pin_memory": false', says="WSL")
    told("cudnn_unsupported", "unknown", "shrink", "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", says="contiguous")


def sentences():
    """Failures that people tell in their own words."""
    told("seen_error", "too-big", "shrink", "When I start the training on an Arc A770, I am seeing **RuntimeError: Allocation is out of device memory on current platform.**")
    told("quoted_words", "too-big", "shrink", "After the first epoch the check on the test set takes so much that it ends with 'cuda out of memory'. Without it all is well.")
    told("ram_beside_gpus", "host-memory", "more-host-memory", "Full fine-tuning on 8 GPUs: each has 13GB in use at most, but the system RAM usage climbs to 490GB, and the run ends with an \"out of memory\" error.")


def other_failures():
    """Errors of the GPU that no lack of memory causes."""
    assertion = (
        "/croot/pytorch_1686931851744/work/aten/src/ATen/native/cuda/Indexing.cu:1146: indexSelectLargeIndex: block: [63,0,0], thread: [37,0,0] Assertion "
        "`srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: device-side assert triggered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    )
    told("assertion_of_an_embedding", "not-memory", "check-indices", assertion, setting="resize_token_embeddings")
    told("assertion", "not-memory", "find-kernel", "RuntimeError: CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.")
    told("no_kernel_image", "not-memory", "matching-build", "RuntimeError: CUDA error: no kernel image is available for execution on the device")
    told("old_driver", "not-memory", "newer-driver", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx")
    told("illegal_access_in_a_sort", "not-memory", "find-kernel", "After some steps loss.backward() ends in RuntimeError: merge_sort: failed to synchronize: cudaErrorIllegalAddress: an illegal memory access was encountered")
    told("illegal_access", "not-memory", "find-kernel", "Exception: Capture cuda graph failed: RuntimeError: CUDA error: an illegal memory access was encountered")
    nan = "".join(
        f"2024-01-18 11:0{step}:12,301 - mmdet - INFO - Epoch [1][{step}50/7033]\tlr: 9.9e-05, memory: {12_345 + step}, loss_cls: nan, loss: nan, grad_norm: nan\n" for step in range(4)
    )
    told("loss_is_no_number", "not-memory", "check-numbers", nan)
    told("exabyte_after_a_timeout", "not-memory", "find-timeout", "The NCCL timeout comes first. Then: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.")
    told("exabyte", "never-fits", "split-request", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.")


def commands():
    """What the command has already, and what it lacks."""
    message = full("112.00 MiB", "39.39 GiB", "14.00 MiB", "39.36 GiB", "38.34 GiB", "385.64 MiB")
    ppo = (
        "openrlhf.cli.train_ppo \\\n   --pretrain /data/llama3-8b-sft \\\n   --reward_pretrain /data/llama3-8b-rm \\\n   --micro_train_batch_size 2 \\\n"
        "   --micro_rollout_batch_size 4 \\\n   --zero_stage 2 \\\n   --bf16\n"
    )
    told("ppo_on_each_gpu", "too-big", "less-weights", f"{message}\n\n{ppo}", setting="train_ppo_ray", absent="--train.micro_batch_size")
    lora = (
        "accelerate launch train_dreambooth_lora_flux.py \\\n  --pretrained_model_name_or_path=$MODEL \\\n  --mixed_precision=\"bf16\" \\\n  --resolution=512 \\\n"
        "  --train_batch_size=2 \\\n{}  --gradient_accumulation_steps=4 \\\n  --optimizer=\"prodigy\"\n"
    )
    flux = full("108.00 MiB", "79.15 GiB", "57.25 MiB", "79.08 GiB", "78.20 GiB", "395.28 MiB")
    told("diffusers_command", "too-big", "shrink", f"{flux}\n\n{lora.format('')}", setting="--gradient_checkpointing --train_batch_size=1", absent="8-bit optimizer")
    told("diffusers_command_checkpoints", "too-big", "shrink", f"{flux}\n\n{lora.format('  --gradient_checkpointing ' + chr(92) + chr(10))}", setting="--train_batch_size=1", absent="--gradient_checkpointing")
    wrapped = (
        "ERROR    2024-11-28 13:24:44,248 embed ERROR: CUDA      batch_handler.py:574\n         out of memory. Tried to allocate 3.88 GiB. GPU 0\n"
        "         has a total capacity of 44.42 GiB of which 920.81\n         MiB is free. Process 247326 has 5.95 GiB memory in\n"
        "         use. Process 248104 has 37.55 GiB memory in use.\n         Of the allocated memory 5.44 GiB is allocated by\n"
        "         PyTorch, and 6.72 MiB is reserved by PyTorch but\n         unallocated. If reserved but unallocated memory is\n"
        "         large try setting\n         PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n         to avoid fragmentation.  See documentation for\n"
        "         Memory Management\n"
    )
    told("wrapped_hint", "other-process", "end-process", wrapped, absent="already follows")
    exllama = (
        "Loading a 65B model on two cards fails with an OOM error when the first GPU has 23.96 GB VRAM used and the second only 7.87 GB.\n"
        "$ python server.py --model some-65B-GPTQ --loader exllama --gpu-split 24,24\n"
        'Traceback (most recent call last):\n  File "/srv/text-generation-webui/server.py", line 1014, in <module>\n    shared.model, shared.tokenizer = load_model(shared.model_name)\n'
        '  File "/srv/text-generation-webui/modules/exllama.py", line 41, in from_pretrained\n    model = ExLlama(config)'
    )
    told("gpu_split", "too-big", "balance-gpus", exllama, setting="--gpu-split", absent="23.96", size=None)
    hip = (
        "I pass `--auto-devices` to text-generation-webui so that a large model is split, and get:\n"
        "OutOfMemoryError: HIP out of memory. Tried to allocate 22.00 MiB (GPU 0; 15.98 GiB total capacity; 15.71 GiB already allocated; 80.00 MiB free; "
        "15.91 GiB reserved in total by PyTorch)"
    )
    told("textgen_of_2023", "too-big", "shorter-context", hip, setting="--pre_layer")


def placed():
    """Parts of a model, ranks and processes on a GPU."""
    contexts = " ".join(f"Process {pid} has 414.00 MiB memory in use." for pid in (3721648, 1374765, 1374763, 1374764))
    ranks = (
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 572.00 MiB. GPU 0 has a total capacity of 39.49 GiB of which 321.31 MiB is free. "
        f"{contexts} Including non-PyTorch memory, this process has 37.46 GiB memory in use. Of the allocated memory 36.04 GiB is allocated by PyTorch, and "
        "321.37 MiB is reserved by PyTorch but unallocated."
    )
    told("contexts_of_ranks", "too-big", "own-device", ranks)
    last = (
        'In inference: "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 288.00 MiB." All weights seem to be on the last gpu, and the others are '
        "nearly empty."
    )
    told("loaded_onto_one_gpu", "unknown", "balance-gpus", "The model is loaded onto one single GPU of the four: CUDA out of memory. Tried to allocate 140.00 MiB. GPU")
    told("worker_in_a_container", "host-memory", "more-shared-memory", "In a docker container the training ends with `RuntimeError: DataLoader worker (pid(s) 31) exited unexpectedly`")
    told("all_on_the_last_gpu", "unknown", "balance-gpus", last, absent="optimizer")
    kernels = (
        "With two notebooks open that both use cudf, the second one fails:\n"
        "MemoryError: std::bad_alloc: CUDA error at: ../include/rmm/mr/device/cuda_memory_resource.hpp:68: cudaErrorMemoryAllocation out of memory"
    )
    told("rmm_beside_another_kernel", "too-big", "end-process", kernels)
    slot = (
        "ResourceExhaustedError (see above for traceback): OOM when allocating tensor of shape [563354,256] and type float\n"
        '\t [[Node: words/Adam/Initializer/zeros = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [563354,256] values: [0 0 0]...>, _device="/job:localhost/replica:0/task:0/device:GPU:0"]()]]'
    )
    told("tensorflow_slot", "too-big", "end-process", slot, absent="smaller batch")
    # Each worker of a trainer imports the libraries again.
    dll = 'OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "C:\\env\\lib\\site-packages\\torch\\lib\\shm.dll" or one of its dependencies.'
    told("page_file_of_workers", "host-memory", "less-host-memory", f"{dll}\n\npython main_train.py --opt options/train_sr.json", setting="num_workers")
    cache = (
        "llama_new_context_with_model: n_ctx      = 1048576\nllama_new_context_with_model: n_batch    = 2048\n"
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 137438953504\n"
        "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
        "llama_new_context_with_model: llama_kv_cache_init() failed for self-attention cache"
    )
    told("llama_kv_of_the_host", "host-memory", "shorter-context", cache, absent="--mem=64G")


def works():
    """What the program was doing, by the text around a message."""
    full_tuning = (
        "Full fine-tuning of llama-7b on one A100-80G always ends like this.\n"
        "  0%|          | 0/12200 [00:00<?, ?it/s]Traceback (most recent call last):\n"
        f'  File "{PACKAGES}/transformers/trainer.py", line 2662, in training_step\n    self.scaler.scale(loss).backward()\n'
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB (GPU 0;"
    )
    told("all_parameters", "too-big", "shard-state", full_tuning, says="16 bytes")
    adapters = full_tuning.replace("Full fine-tuning", "LoRA fine-tuning")
    told("adapters", "unknown", "shrink", adapters, absent="16 bytes")
    copies = (
        "</span><span style=\"color: green;\">    781</span><span>     </span><span style=\"color: green;\">def</span><span> </span><span>_is_fp16_bf16_tensor</span><span>(</span><span>tensor</span><span>):</span>\n"
        "</pre><pre><span style=\"color: red\">OutOfMemoryError</span><span>: " + full("5.94 GiB", "22.17 GiB", "5.76 GiB", "16.39 GiB", "15.85 GiB", "306.50 MiB").split(": ", 1)[1]
    )
    told("outputs_in_32_bits", "too-big", "chunk-logits", copies, says="Accelerate")
    tiles = (
        "# Images of 4096x4096\ninferer = nets.infer.Inferer(config)\ninferer()\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 11.93 GiB total capacity; 9.75 GiB already allocated; 763.06 MiB free; 10.02 GiB reserved in total by PyTorch)"
    )
    told("inference", "too-big", "shrink", tiles, absent="optimizer")
    state = (
        '  File "/srv/megatron/checkpointing.py", line 572, in load_checkpoint\n    optimizer.load_state_dict(state_dict[\'optimizer\'])\n'
        f'  File "{PACKAGES}/torch/optim/optimizer.py", line 379, in load_state_dict\n    state_dict = deepcopy(state_dict)\n'
        '  File "/opt/env/lib/python3.10/copy.py", line 146, in deepcopy\n    y = copier(x, memo)\n'
    )
    saves = (
        '[rank3]:   File "/srv/train/save.py", line 109, in save_all\n[rank3]:     state = model.state_dict()\n'
        f'[rank3]:   File "{PACKAGES}/torch/distributed/fsdp/_state_dict_utils.py", line 303, in _full_pre_state_dict_hook\n'
        "[rank3]:     _common_unshard_pre_state_dict_hook(\n[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    told("saves_without_numbers", "unknown", "offload-state", saves)
    whole = full("26.08 GiB", "31.75 GiB", "4.77 GiB", "26.90 GiB", "26.14 GiB", "10.24 MiB")
    told("copy_of_all_parameters", "too-big", "shard-state", f"Tuning some-7B on V100s with 32G:\n{whole}", says="7.0 billion")
    told("gaudi_workspace", "too-big", "shrink", "RuntimeError: FATAL ERROR :: MODULE:SYNHELPER workspace Allocation of size ::14493510400 failed!", raw=14493510400)
    told("killed_in_from_pretrained", "host-memory", "load-in-parts", 'I run\nDiffusionPipeline.from_pretrained("some/model")\nand it only prints "Killed".')
    told("state_of_an_optimizer", "too-big", "smaller-optimizer", state + full("9.10 GiB", "79.35 GiB", "5.10 GiB", "73.20 GiB", "71.20 GiB", "839.68 MiB"))
    placed_weights = (
        f'  File "{PACKAGES}/accelerate/utils/modeling.py", line 311, in set_module_tensor_to_device\n    new_value = old_value.to(device)\n'
    )
    told("weights_to_a_device", "too-big", "less-weights", placed_weights + full("20.00 MiB", "24.00 GiB", "0 bytes", "23.90 GiB", "23.01 GiB", "121.23 MiB"))
    detects = (
        '  File "/home/u/detectron2/detectron2/engine/train_loop.py", line 215, in run_step\n    loss_dict = self.model(data)\n'
        '  File "/home/u/detectron2/detectron2/layers/batch_norm.py", line 50, in forward\n    return x * scale + bias\n'
    )
    told("detectron2", "too-big", "shrink", detects + full("1.03 GiB", "11.17 GiB", "845.31 MiB", "10.20 GiB", "9.90 GiB", "112.00 MiB"), setting="IMS_PER_BATCH")
    told("sentences", "too-big", "shrink", "Fine-tuning with sentence-transformers, batch size 16:\nCUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 6.06 GiB already allocated; 0 bytes free; 6.38 GiB reserved in total by PyTorch)", setting="max_seq_length")


def misleading():
    """Words of code, names and flags that say less than they seem to, and failures that need a step of their own."""
    loss = (
        '  File "/home/u/cityseg/train_small.py", line 271, in train\n    val_loss = criterion(outputs, labels)\n'
        '  File "/home/u/cityseg/losses.py", line 64, in bootstrapped\n    kept = probabilities[mask.repeat(1, c) >= 0]\n'
    )
    told("loss_of_a_validation", "too-big", "evaluate-in-parts", f"{loss}RuntimeError: CUDA out of memory. Tried to allocate 296.00 MiB (GPU 0; 10.76 GiB total capacity; 9.41 GiB already allocated; 210.56 MiB free; 63.12 MiB cached)")
    scores = (
        f'  File "{PACKAGES}/diffusers/models/cross_attention.py", line 253, in get_attention_scores\n'
        "    attention_probs = attention_scores.softmax(dim=-1)\n"
    )
    told("scores_of_diffusers", "too-big", "fused-attention", scores + full("3.00 GiB", "15.77 GiB", "2.31 GiB", "11.52 GiB", "11.40 GiB", "122.88 MiB"))
    rocm = (
        '  File "/home/u/ComfyUI/comfy/ops.py", line 47, in scaled_dot_product_attention\n'
        "    return torch.nn.functional.scaled_dot_product_attention(q, k, v, *args, **kwargs)\n"
    )
    whole = full("61.20 GiB", "23.98 GiB", "7.02 GiB", "16.60 GiB", "16.10 GiB", "301.44 MiB").replace("CUDA", "HIP", 1)
    told("attention_on_rocm", "never-fits", "fused-attention", rocm + whole, setting="AOTRITON")
    told(
        "vllm_negative_cache_0_7", "kv-cache", "raise-share",
        "INFO 03-02 10:11:07 worker.py:267] the current vLLM instance can use total_gpu_memory (8.00GiB) x gpu_memory_utilization (0.60) = 4.80GiB\n"
        "INFO 03-02 10:11:07 worker.py:267] model weights take 4.10GiB; non_torch_memory takes 0.05GiB; PyTorch activation peak memory takes 1.30GiB; the rest of the memory reserved for KV Cache is -0.65GiB.",
    )
    told(
        "vllm_full_at_its_start", "other-process", "end-process",
        "ValueError: Free memory on device (0.61/79.32 GiB) on startup is less than desired GPU memory utilization (0.5, 39.66 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        absent="gpu-memory-utilization",
    )
    told("fault_on_rocm", "not-memory", "find-kernel", "Memory access fault by GPU node-1 (Agent handle: 0x5581c0) on address 0x7f2e91600000. Reason: Unknown.", says="AMD_SERIALIZE_KERNEL")
    told(
        "assertion_of_a_value", "not-memory", "find-kernel",
        "../aten/src/ATen/native/cuda/Loss.cu:115: operator(): block: [0,0,0], thread: [3,0,0] Assertion `input_val >= zero && input_val <= one` failed.\nRuntimeError: CUDA error: device-side assert triggered",
        says="outside the range",
    )
    windows = (
        '  File "C:\\detect\\train.py", line 88, in train\n    pred = model(imgs)\n'
        "RuntimeError: CUDA out of memory. Tried to allocate 252.00 MiB (GPU 0; 6.00 GiB total capacity; 120.50 MiB already allocated; 4.10 GiB free; 348.00 MiB reserved in total by PyTorch)"
    )
    told("refused_on_windows", "refused", "larger-page-file", windows)
    inception = (
        f'  File "{PACKAGES}/torchvision/models/inception.py", line 155, in _forward\n    x = self.Mixed_5b(x)\n'
        f'  File "{PACKAGES}/torch/nn/functional.py", line 2450, in batch_norm\n    return torch.batch_norm(input, training=training)\n'
    )
    few = full("56.00 MiB", "11.91 GiB", "40.06 MiB", "11.30 GiB", "11.10 GiB", "90.11 MiB")
    told("blocks_with_numbers", "too-big", "shrink", f"In epoch 3, only on one GPU, with 32 kernels in the first layer:\n{inception}{few}", absent="billion")


def that_go_on():
    """Fallbacks after which a program goes on, and failures that memory has no part in."""
    told(
        "ultralytics_on_the_cpu", "warning", "shrink",
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
        "      7/300      9.12G      1.102     0.9311      1.004        655       1024:  12%|#2        | 41/340 [00:31<03:20,  1.49it/s]"
        "WARNING: CUDA OutOfMemoryError in TaskAlignedAssigner, using CPU\n"
        "      7/300      9.40G      1.098     0.9274      1.003        391       1024: 100%|##########| 340/340 [04:10<00:00,  1.36it/s]",
        says="need not be stopped",
    )
    told("ultralytics_halves_the_batch", "warning", "shrink", "WARNING: CUDA out of memory with batch=24. Reducing to batch=12 and retrying (1/3).", setting="batch=12", batch=24, smaller=12)
    told("lightning_finds_no_batch", "too-big", "shrink", "Batch size 2 failed, trying batch size 1\nBatch size 1 failed, trying batch size 0", says="BatchSizeFinder")
    told("lm_studio_beyond_a_desktop", "limit", "shorter-context", "Model loading was stopped due to insufficient system resources. Under the current settings, this model requires approximately 310.50 GB of memory, and continuing to load it would likely overload your system and cause it to freeze.", absent="guardrail, if")
    told("exllama_in_a_web_ui", "too-big", "shorter-context", '  File "/srv/text-generation-webui/modules/models.py", line 88, in loader\n    return Exllamav3HF.from_pretrained(name)\nRuntimeError: Insufficient VRAM in split for model and cache', setting="ctx-size")
    pinned = "ggml_cuda_host_malloc: failed to allocate 4312.50 MiB of pinned memory: invalid argument\nllm_load_tensors:        CPU buffer size =  4312.50 MiB\n"
    told("llama_pinned_and_started", "warning", "without-mmap", f"Why can't it allocate 4.3 GB? I have 32 GB of RAM.\n\n{pinned}Load Text Model OK: True", says="nothing failed")
    told("llama_pinned_and_no_more", "host-memory", "without-mmap", pinned)
    for name, line, setting in (
        ("cudnn_8", "Could not load library libcudnn_cnn_infer.so.8. Error: libcudnn_cnn_infer.so.8: cannot open shared object file: No such file or directory", "nvidia-cudnn-cu12==8."),
        ("cudnn_9", "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}\nInvalid handle. Cannot load symbol cudnnCreateTensorDescriptor", "nvidia-cudnn-cu12==9."),
        ("cudnn_windows", "Could not locate cudnn_ops_infer64_8.dll. Please make sure it is in your library path!", "nvidia-cudnn-cu12==8."),
        ("cublas", "RuntimeError: Library cublas64_12.dll is not found or cannot be loaded", "nvidia-cublas-cu12"),
        ("cublas_11", "RuntimeError: Library libcublas.so.11 is not found or cannot be loaded", "nvidia-cublas-cu11"),
    ):
        told(f"no_library_{name}", "not-memory", "install-library", f"My GPU is out of memory with the large model, I think:\n{line}", setting=setting)
    told("sglang_within_its_limit", "kv-cache", "newer-release", "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\nAvailable tokens: 90112\nKilled\nState: OOMKilled=false", says="neither the cache nor the GPU is full")


def beside_it():
    """What stands beside the error: a table of slices, a device in a prefix, a line of totals, the rest of a path."""
    head = "2023-05-04 08:30:01.2{}: E tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:{}] "
    handle = head.format("11", 429) + "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\n"
    memory = head.format("12", 433) + "Memory usage: {} bytes free, {} bytes total.\n"
    told("cudnn_handle_and_its_memory", "outside-pytorch", "memory-growth", handle + memory.format(11206656, 8361017344), free_raw=11206656, total_raw=8361017344)
    told("cudnn_handle_with_room", "not-memory", "install-library", handle + memory.format(7011206656, 8361017344), free_raw=7011206656)
    told("cudnn_handle_of_jax", "outside-pytorch", "look-at-device", f"import jax\n{handle}jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed.", setting="nvidia-smi")
    told("nccl_names_its_gpu", "outside-pytorch", "leave-margin", "gx12:88121:88634 [5] include/alloc.h:190 NCCL WARN Failed to CUDA calloc 4194304 bytes", says="on GPU 5 of its host", raw=4194304)
    slices = "".join(
        f"|  0    {instance}   0   {number}  | {used:6}MiB /  9856MiB | 14      0 |  1   0    0    0    0 |\n|                  |      {number}MiB / 16383MiB |           |                       |\n"
        for number, (instance, used) in enumerate(((7, 9120), (9, 1856)))
    )
    told("numba_on_a_slice", "outside-pytorch", "end-process", f"numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\n| MIG devices:        |\n{slices}", says="736.00 MiB of 9.63 GiB, 7.81 GiB of 9.63 GiB")
    trt = (
        "[E] Error[2]: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (no further information)\n"
        "[W] [TRT] Requested amount of GPU memory (9448928256 bytes) could not be allocated. There may not be enough free memory for allocation to succeed.\n"
    )
    told("tensorrt_without_a_tactic", "too-big", "shrink", f"yolov8n, exported by Ultralytics\n{trt}[E] Error[10]: IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation for node {{ForeignNode[/0/Mul]}}.)", absent="workspace:4096")
    told("directml_whole_model", "too-big", "less-weights", '  File "C:\\v\\lib\\site-packages\\torch\\nn\\modules\\module.py", line 1143, in convert\n    return t.to(device, dtype if t.is_floating_point() or t.is_complex() else None, non_blocking)\nRuntimeError: Could not allocate tensor with 180355072 bytes. There is not enough GPU video memory available!', says="half a byte")
    encodes = '  File "/srv/clips/encode.py", line 41, in run\n    z = vae.encode(clip).latent_dist.sample()\n'
    told("cublas_while_a_vae_encodes", "outside-pytorch", "tile-decode", f"{encodes}RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", setting="enable_tiling")
    linked = "[/usr/local/lib/python3.11/dist-packages/accelerate/utils/operations.py](https://localhost:8080/#) in _convert_to_fp32(tensor)\n    780 \n--> 781         return tensor.float()\n\n"
    told("linked_file_of_a_notebook", "too-big", "chunk-logits", linked + full("7.81 GiB", "14.74 GiB", "3.02 GiB", "11.71 GiB", "11.40 GiB", "180.22 MiB"), says="including the logits")
    box = "│ D:\\tools\\kohya_ss\\train_network.py:990 in <module>          │\n│ ❱ 990 │   trainer.train(args)          │\n"
    told("path_of_windows_in_a_box", "too-big", "offload", box + full("20.00 MiB", "6.00 GiB", "0 bytes", "5.29 GiB", "5.24 GiB", "51.20 MiB"), says="kohya_ss/train_network.py:990")


def of_posts():
    """All of them."""
    for group in (wordings, words_alone, sentences, other_failures, commands, placed, works, misleading, that_go_on, beside_it):
        group()
