"""The logs of testdata/messages/answers of other devices, of pools and programs beside PyTorch, and of ranks that share a GPU by mistake.

Tables of `make_messages.py`. Amounts and punctuation are as users posted them or as the releases print them; the rest is made up.
"""

from answers_of_families import full
from answers_of_logs import told
from message_amounts import printed


def gib(amount):
    """Bytes of an amount in GiB."""
    return printed(f"{amount} GiB")


def other_devices():
    """The tools and settings of NVIDIA's GPUs are of no use there."""
    started = "ValueError: Free memory on device {} ({}/{} GiB) on startup is less than desired GPU memory utilization (0.85, {} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    told("vllm_full_arc", "other-process", "end-process", f"(EngineCore pid=77) xpu_worker.py:211\n{started.format('xpu:1', '0.41', '15.9', '13.52')}", setting="xpu-smi ps")
    told("vllm_full_instinct", "other-process", "end-process", f"# ROCm 7.0, one MI210\n{started.format('cuda:0', '1.03', '63.98', '54.38')}", setting="rocm-smi")
    told("vllm_full_of_a_mixed_text", "other-process", "end-process", f"It works on ROCm, but not on my RTX 4090:\n{started.format('cuda:0', '1.03', '23.51', '19.98')}", setting="nvidia-smi")
    told(
        "xpu_errors_after_it", "too-big", "shrink",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 15.91 GiB. Of the allocated memory 15.70 GiB is allocated by PyTorch, and 2.11 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.\n"
        ">>> y.sum()\nRuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
        says="has to be started again",
    )
    told("npu_wrong_size", "never-fits", "split-request", "The fused kernel leaves 91234871236509184 in my index tensor.\nRuntimeError: NPU out of memory. Tried to allocate more than 1EB memory.", says="overwritten by a kernel")
    told(
        "gaudi_whole_model", "too-big", "less-weights",
        "Loading checkpoint shards: 100%|##########| 30/30 [04:11<00:00]\n  File \"/srv/run.py\", line 90, in main\n    model = model.eval().to(\"hpu\")\nRuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::469762048 (448)MB",
        setting="--use_deepspeed",
    )
    hbm = (
        "RuntimeError: Resource exhausted: From /job:tpu_worker/replica:0/task:0:\n"
        "Attempting to reserve 5.12G at the bottom of memory. That was not possible. There are 3.40G free, 0B reserved, and 3.40G reservable.; \n"
        "HBM capacity 16.00G:\n       Top-of-Memory reserved:  264.00M (     276,824,064 bytes)\n          Currently allocated:   12.34G (  13,250,000,000 bytes)\n"
    )
    told("tpu_with_its_table", "too-big", "shrink", hbm, program=gib("5.12"), free=gib("3.40"), capacity=gib("16.00"), allocated=gib("12.34"))
    told("tpu_without_its_table", "too-big", "shrink", hbm.split("HBM")[0], program=gib("5.12"), free=gib("3.40"))
    mps = "RuntimeError: MPS backend out of memory (MPS allocated: 34.91 GB, other allocations: 1.20 GB, max allowed: 36.27 GB). Tried to allocate 192.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure)."
    told("mps_last_straw", "limit", "shrink", mps, says="beyond it the system swaps")
    told("mps_with_a_lower_limit", "limit", "raise-limit", f"$ PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.6 python sample.py\n{mps}")


def pools():
    """Pools that refuse by their own rules."""
    told(
        "cupy_limit", "limit", "free-pool",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,610,612,736 bytes (allocated so far: 1,073,741,824 bytes, limit set to: 2,147,483,648 bytes).",
        setting="free_all_blocks", raw=1610612736, limit_raw=2147483648,
    )
    tries = "".join(
        f"2023-11-01 16:19:17.8120{n}: E tensorflow/compiler/xla/stream_executor/rocm/rocm_driver.cc:606] failed to allocate {tib}TiB ({size} bytes) from device: HIP_ERROR_OutOfMemory\n"
        for n, (tib, size) in enumerate((("64.00", 70368744177664), ("57.60", 63331869759897), ("51.84", 56998682783907)))
    )
    told("tensorflow_absurd_pool", "contradiction", "memory-growth", f"{tries}2023-11-01 16:19:17.81209: E tensorflow/compiler/xla/stream_executor/rocm/rocm_driver.cc:606] failed to allocate 46.66TiB (51298814505516 bytes)", raw=70368744177664)
    told(
        "trtllm_cache_with_the_model", "engine-share", "lower-share",
        "[TRT-LLM] [E] Executor creation failed due to insufficient GPU memory.\n\nThe following component could not be created: KV cache\nTotal GPU memory (GiB): 79.15\n"
        "Free GPU memory before component creation attempt (GiB): 60.20\n\nPreviously created components and free GPU memory before/after creation (GiB):\nModel: 78.60 / 62.10\nSampler: 62.10 / 62.10",
        kv_total=gib("79.15"), kv_free=gib("60.20"), before=gib("78.60"), after=gib("62.10"),
    )
    told(
        "sglang_beside_gaps", "engine-share", "lower-share",
        f"python3 -m sglang.launch_server --model-path m --mem-fraction-static 0.92\n{full('96.00 MiB', '79.15 GiB', '12.00 MiB', '79.10 GiB', '75.60 GiB', '2.90 GiB')}",
    )
    told("tgi_very_few_tokens", "kv-cache", "less-weights", 'Error: Warmup(Generation("Not enough memory to handle 128 prefill tokens. You need to decrease `--max-batch-prefill-tokens`"))', absent="--max-batch-prefill-tokens")
    told("julia_with_totals", "too-big", "free-pool", "ERROR: Out of GPU memory trying to allocate 1.500 GiB\nEffective GPU memory usage: 97.31% (7.751 GiB/7.965 GiB)\nMemory pool usage: 5.100 GiB (5.250 GiB reserved)", used=printed("7.751 GiB"), total=printed("7.965 GiB"))
    told("mxnet_pool", "outside-pytorch", "end-process", "mxnet.base.MXNetError: [10:11:12] src/storage/./pooled_storage_manager.h:161: cudaMalloc failed: out of memory", absent="--n-gpu-layers")
    told("cusparse_resources", "outside-pytorch", "shrink", "RuntimeError: CUDA error: insufficient resources when calling `cusparseSpGEMM_workEstimation( handle, opA, opB, &alpha, a.descriptor())`")
    told("tinygrad_with_its_use", "too-big", "shrink", "MemoryError: Allocation of 1.61 GB failed on NV. Used: 22.80 GB", size=1610000000, used=22800000000)
    told("theano", "too-big", "shrink", "MemoryError: Error allocating 45158400 bytes of device memory (out of memory). Driver report 44666880 bytes free and 536543232 bytes total", raw=45158400, free_raw=44666880)
    told("opencl_of_lightgbm", "too-big", "shrink", "[LightGBM] [Info] Number of data points in the train set: 1100000, number of used features: 8000\nterminate called after throwing an instance of 'boost::wrapexcept<boost::compute::opencl_error>'\n  what():  Memory Object Allocation Failure", setting="max_bin=63")
    told("webgpu_buffer", "never-fits", "raise-limit", "Buffer size (1476395008) exceeds the max buffer size limit (1073741824).\n - While calling [Device].CreateBuffer([BufferDescriptor]).", raw=1476395008, limit_raw=1073741824)
    told("wgpu_buffer", "never-fits", "raise-limit", "wgpu error: Validation Error\nCaused by:\n  In Device::create_buffer\n    Buffer size 402653184 is greater than the maximum buffer size (268435456)", raw=402653184)
    told("webgpu_binding", "never-fits", "raise-limit", "Binding size (141557760) of [Buffer (unlabeled)] is larger than the maximum binding size (134217728).", raw=141557760, limit_raw=134217728)
    told("webgpu_adapter", "never-fits", "smaller-model", "OperationError: Failed to execute 'requestDevice' on 'GPUAdapter': Required limit (1073741824) is greater than the supported limit (134217728).", raw=1073741824, limit_raw=134217728)
    told("web_device_lost", "too-big", "smaller-model", "Device was lost. This can happen due to insufficient memory or other GPU constraints. Detailed error: [object GPUDeviceLostInfo].")
    told("mlx_large_model", "warning", "smaller-model", "[WARNING] Generating with a model that requires 41000 MB which is close to the maximum recommended size of 36864 MB. This can be slow.", needed=printed("41000 MiB"), limit=printed("36864 MiB"))


def no_lack_of_memory():
    """Errors that a program, its kernels or the driver put in words of memory."""
    yolox = "2021-09-24 21:52:41 | ERROR    | yolox.models.yolo_head:333 - OOM RuntimeError is raised due to the huge memory cost during label assignment.                            CPU mode is applied in this batch. If you want to avoid this issue,                            try to reduce the batch size or image size."
    gather = '/pytorch/aten/src/ATen/native/cuda/ScatterGatherKernel.cu:144: operator(): block: [2,0,0], thread: [7,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && "index out of bounds"` failed.'
    told("yolox_of_an_assertion", "not-memory", "check-indices", f"{gather}\n{yolox}", setting="num_classes", says="takes every error")
    told("yolox_on_the_cpu", "warning", "shrink", yolox, says="goes on")
    told("assertion_alone", "not-memory", "find-kernel", "../aten/src/ATen/native/cuda/TensorCompare.cu:106: _assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `probability tensor contains either inf, nan or element < 0` failed.")
    table = (
        "|   0  Tesla V100-SXM2...  On   | 00000000:1A:00.0 Off |                    0 |\n| N/A   35C    P0    63W / 300W |    412MiB / 16160MiB |      0%   E. Process |\n"
        "|   1  Tesla V100-SXM2...  On   | 00000000:1C:00.0 Off |                    0 |\n| N/A   29C    P0    43W / 300W |      0MiB / 16160MiB |      0%   E. Process |\n"
    )
    busy = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    told("busy_gpu", "not-memory", "other-device", f"{busy}\n\n{table}", setting="CUDA_VISIBLE_DEVICES=1")
    told("busy_gpu_alone", "not-memory", "look-at-device", "THCudaCheck FAIL file=THCStorage.cu line=66 error=46 : all CUDA-capable devices are busy or unavailable", says="exclusive")
    told("launch_resources", "kernel-shared-memory", "smaller-blocks", "numba.cuda.cudadrv.driver.CudaAPIError: [701] Call to cuLaunchKernel results in CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    told("opencl_compiler", "not-memory", "other-kernel", "[LightGBM] [Info] Number of data points in the train set: 512, number of used features: 9\n[LightGBM] [Info] Compiling OpenCL Kernel with 256 bins...\nLLVM ERROR: out of memory", setting="gpu_use_dp=False")
    told("llvm_in_a_program", "host-memory", "look-at-device", "Compiling 214 functions of the model\nLLVM ERROR: out of memory\nAborted (core dumped)")
    told("llvm_in_a_build", "host-memory", "less-host-memory", "[3/12] nvcc -c kernels.cu\nLLVM ERROR: out of memory\nninja: build stopped: subcommand failed.")
    told("xid_of_a_kernel", "not-memory", "find-kernel", "[ 1234.5] NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f1c_4a000000", code=31)
    told("xid_of_the_hardware", "not-memory", "reset-device", "[ 1234.5] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", code=79)
    told("ecc", "not-memory", "reset-device", "RuntimeError: CUDA error: uncorrectable ECC error encountered")
    told("zerogpu_quota", "not-memory", "shorter-time", "gradio.exceptions.Error: 'You have exceeded your GPU quota (120s requested vs. 35s left). Try again in 3:02:11'", asked=120, left=35)
    told("spilled_to_the_host", "warning", "shrink", "It does not crash on my GTX 1650, it only gets ten times slower. Dedicated GPU memory 3.8/4.0 GB, Shared GPU memory 5.7/15.9 GB.", used=gib("5.7"))


def hosts():
    """Limits of the host that the GPU's error hides."""
    windows = (
        "** model v1-5 could not be loaded: [enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:81] data. DefaultCPUAllocator: not enough memory: you tried to allocate 26214400 bytes.\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 40.00 MiB (GPU 0; 12.00 GiB total capacity; 1.10 MiB already allocated; 10.51 GiB free; 2.00 MiB reserved in total by PyTorch)"
    )
    told("commit_limit_of_both", "host-memory", "larger-page-file", windows, says="10.51 GiB free")
    spawned = (
        '  File "<string>", line 1, in <module>\n  File "C:\\Python310\\lib\\multiprocessing\\spawn.py", line 116, in spawn_main\n    exitcode = _main(fd, parent_sentinel)\n'
        'OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "C:\\venv\\lib\\site-packages\\torch\\lib\\cublas64_12.dll" or one of its dependencies.'
    )
    told("commit_limit_of_workers", "host-memory", "less-host-memory", spawned, setting="num_workers=0")
    told("slurm_large_limit", "host-memory", "more-host-memory", "#SBATCH --mem 120G\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0. Some of your processes may have been killed by the cgroup out-of-memory handler.", setting="--mem=180G")
    told(
        "offload_with_figures", "host-memory", "offload-less",
        "[INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 498.12 GB, percent = 98.9%\n[ERROR] [launch.py:322:sigkill_handler] ['/opt/conda/bin/python', '-u', 'train.py'] exits with return code = -9",
        says="498.12 GiB in use, 98.9 %",
    )
    told(
        "killed_while_saving", "host-memory", "save-less",
        "step 500/2000 - INFO - accelerate.accelerator - Saving current state to /content/out/checkpoint-500\n[INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step500 is about to be saved!\n"
        "subprocess.CalledProcessError: Command '['deepspeed', 'train.py']' died with <Signals.SIGKILL: 9>.",
    )
    told(
        "killed_long_after_saving", "host-memory", "less-host-memory",
        "Saving model checkpoint to out/checkpoint-500\n[Torch] Checkpoint global_step500 is ready now!\nstep 501\nsubprocess.CalledProcessError: Command '['deepspeed', 'train.py']' died with <Signals.SIGKILL: 9>.",
    )
    told("killed_while_it_trains", "host-memory", "less-host-memory", "Saving model checkpoint to out/checkpoint-500\nstep 501 loss 1.21\nstep 502 loss 1.19\nsubprocess.CalledProcessError: Command '['deepspeed', 'train.py']' died with <Signals.SIGKILL: 9>.")
    told("kaggle_ram", "host-memory", "less-host-memory", "Your notebook tried to allocate more memory than is available. It has restarted.", says="notebook's settings")


def programs():
    """Names that a program has for the settings of others."""
    told("lm_studio_compute", "too-big", "smaller-batch", "LM Studio 0.3.31\nFailed to initialize the context: failed to allocate compute pp buffers", setting="Evaluation Batch Size")
    kobold = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 6112.50 MiB on device 0: cudaMalloc failed: out of memory\nkoboldcpp.py: Could not load text model"
    told("kobold_layers", "too-big", "fewer-layers", kobold, setting="--gpulayers")
    told("llama_cpp_python", "too-big", "smaller-batch", "from llama_cpp import Llama\nllama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers", setting="n_batch")
    metal = (
        "llama_context: n_ctx         = 65536\nggml_metal_init: recommendedMaxWorkingSetSize  = 12713.12 MB\nllama_kv_cache: Metal KV buffer size = 12288.00 MiB\n"
        "ggml_metal_graph_compute: command buffer 0 failed with status 5\nerror: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
    )
    told("metal_large_cache", "too-big", "shorter-context", metal, says="12.00 GiB")
    told("blender_optix", "too-big", "shrink", "Failed to build OptiX acceleration structure\nSystem is out of GPU memory", setting="CUDA instead of OptiX")
    told("darktable", "too-big", "shrink", "[dt_opencl_alloc_device_buffer] could not alloc buffer on device 'NVIDIA CUDA NVIDIA GeForce GTX 1050' id=0: CL_MEM_OBJECT_ALLOCATION_FAILURE", setting="headroom")
    buffers = '  File "/opt/Megatron-LM/megatron/core/distributed/param_and_grad_buffer.py", line 382, in __init__\n    self.grad_data = torch.zeros(\n'
    told("megatron_buffers", "too-big", "smaller-optimizer", buffers + full("21.40 GiB", "79.11 GiB", "17.20 GiB", "61.91 GiB", "60.70 GiB", "14.07 MiB"), setting="--use-distributed-optimizer")
    copies = "[06/09 11:05:20 d2.utils.memory]: Attempting to copy inputs of <function pairwise_iou at 0x7f> to CPU due to CUDA OOM\n"
    told("detectron_on_the_cpu", "warning", "shrink", copies, setting="IMS_PER_BATCH")
    gaps = "RuntimeError: CUDA out of memory. Tried to allocate 1.66 GiB (GPU 0; 31.72 GiB total capacity; 23.41 GiB already allocated; 1.49 GiB free; 28.90 GiB reserved in total by PyTorch)"
    told("detectron_with_gaps", "fragmentation", "shrink", copies + gaps, setting="IMS_PER_BATCH")
    told("paddle_on_the_host", "host-memory", "shrink", "MemoryError: (ResourceExhausted) Fail to alloc memory of 2147483648 size, error code is 12.", absent="torch.load")


def boxed():
    """A traceback in a box, deeper than what is kept of one."""
    frames = "".join(f"{f'│ /srv/app/part_{n}.py:{n + 10} in call_{n}':<79}│\n{f'│ ❱ {n + 10} │   return next_{n}(x)':<79}│\n" for n in range(150))
    last = f"{'│ /opt/env/torch/optim/adamw.py:175 in _init_group':<79}│\n{'│ ❱ 175 │   state[' + chr(34) + 'exp_avg' + chr(34) + '] = torch.zeros_like(p)':<79}│\n"
    told("deep_box", "too-big", "smaller-optimizer", f"╭{' Traceback (most recent call last) ':─^78}╮\n{frames}{last}╰{'─' * 78}╯\n" + full("136.00 MiB", "23.65 GiB", "58.38 MiB", "23.50 GiB", "22.80 GiB", "121.90 MiB"))


def jobs():
    """Ranks of one job, memory that is kept, and slices of a GPU."""
    loads = '[rank5]:   File "/srv/train.py", line 66, in main\n[rank5]:     state = torch.load(args.resume)\n[rank5]:   File "/opt/env/lib/python3.11/site-packages/torch/serialization.py", line 1384, in load\n'
    others = "".join(f"Process {pid} has 11.20 GiB memory in use. " for pid in range(901, 907))
    crowd = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 72.06 MiB is free. {others}Including non-PyTorch memory, this process has 11.20 GiB memory in use. Of the allocated memory 10.70 GiB is allocated by PyTorch, and 21.10 MiB is reserved by PyTorch but unallocated."
    told("ranks_load_on_one_gpu", "other-process", "map-location", f"{loads}[rank5]: {crowd}", says="ranks of one job")
    told("ranks_on_one_gpu", "other-process", "own-device", crowd, setting="set_device")
    told("load_on_the_host", "other-process", "own-device", f"{loads.replace('args.resume)', chr(34) + 'last.pt' + chr(34) + ', map_location=' + chr(34) + 'cpu' + chr(34) + ')')}[rank5]: {crowd}")
    epochs = "".join(f"epoch {n} loss {2 - n / 4:.2f} allocated {2.50 + 3.15 * n:.2f} GiB\n" for n in range(4))
    told("grow_evenly", "too-big", "bound-growth", epochs + full("20.00 MiB", "15.77 GiB", "11.12 MiB", "15.75 GiB", "14.93 GiB", "440.17 MiB"), absent="expandable segments")
    unevenly = "".join(f"epoch {n} loss {2 - n / 4:.2f} allocated {amount} GiB\n" for n, amount in enumerate(("2.50", "9.10", "11.20", "11.90")))
    told("warm_up_unevenly", "too-big", "shrink", unevenly + full("20.00 MiB", "15.77 GiB", "11.12 MiB", "15.75 GiB", "14.93 GiB", "40.17 MiB"))
    sliced = (
        "| MIG devices:                                                                          |\n|==================+================================+===========+=======================|\n"
        "|  0    3   0   0  |           9801MiB /  9856MiB   | 28      0 |  2   0    1    0    0 |\n"
    )
    told("slice_by_its_table", "too-big", "shrink", full("64.00 MiB", "9.62 GiB", "31.81 MiB", "9.57 GiB", "9.10 GiB", "61.45 MiB") + f"\n\n{sliced}", says="slice (MIG) of 9.62 GiB")
    told("slice_by_its_name", "too-big", "shrink", "MIG 3g.20gb\n" + full("64.00 MiB", "19.50 GiB", "31.81 MiB", "19.45 GiB", "19.00 GiB", "61.45 MiB"), says="slice (MIG)")
    told("sharded_and_saved", "too-big", "offload-state", "With FSDP on 4 GPUs the training itself is fine, but when saving the checkpoint rank 0 ends with CUDA out of memory.", setting="rank0_only")


def of_devices():
    """All of them."""
    for group in (other_devices, pools, no_lack_of_memory, hosts, programs, boxed, jobs):
        group()
