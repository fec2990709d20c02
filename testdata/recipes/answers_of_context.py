"""The logs of testdata/messages/answers whose first step is told by what stands around a message: tables of `make_messages.py`.

A model that each rank moves to its GPU, processes that share one, machines whose memory is shared, warnings that have the numbers of a cut message, sizes that
an extension or another rank made up, programs that go on. Amounts and punctuation are as users posted them or as the releases print them; the rest is made up.
"""

from answers_of_families import full
from answers_of_logs import told

FILES = "/opt/env/lib/python3.11/site-packages"


def listed(tried, free, processes, allocated, unallocated, gpu=0, total="79.10 GiB"):
    """PyTorch's message since 2.2, with the processes that it lists."""
    others = " ".join(f"{who} {amount} memory in use." for who, amount in processes)
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU {gpu} has a total capacity of {total} of which {free} is free. {others} Of the "
        f"allocated memory {allocated} is allocated by PyTorch, and {unallocated} is reserved by PyTorch but unallocated."
    )


def ranks():
    """Ranks that load, workers that share a GPU, and processes whose memory nobody tells."""
    convert = (
        f'[rank3]:   File "{FILES}/torch/nn/modules/module.py", line 1329, in convert\n'
        "[rank3]:     return t.to(\n[rank3]:            ^^^^^\n"
        f"[rank3]: {listed('462.00 MiB', '405.00 MiB', [('Process 2957107 has', '78.79 GiB')], '77.40 GiB', '416.38 MiB', 3, '79.19 GiB')}"
    )
    told("model_of_each_rank", "too-big", "less-weights", convert, setting="ZeRO-3", absent="shorter sequences")
    makes = (
        f'[rank3]:   File "{FILES}/torch/nn/parallel/distributed.py", line 809, in __init__\n[rank3]:     _sync_module_states(\n'
        f'[rank3]:   File "{FILES}/torch/distributed/utils.py", line 313, in _sync_params_and_buffers\n[rank3]:     dist._broadcast_coalesced(\n'
    )
    told("copy_for_each_rank", "too-big", "less-weights", makes + "[rank3]: " + full("112.00 MiB", "23.65 GiB", "61.31 MiB", "23.57 GiB", "23.02 GiB", "120.50 MiB"), absent="shorter sequences")
    old = f'  File "{FILES}/torch/nn/modules/module.py", line 664, in _apply\n' + full("90.00 MiB", "11.75 GiB", "61.31 MiB", "11.68 GiB", "11.20 GiB", "40.50 MiB")
    told("module_without_its_line", "too-big", "less-weights", old, absent="shorter sequences")
    silent = [(f"Process {pid} has", "0 bytes") for pid in (3427, 3423, 3429, 3426, 3428, 3424, 3425)]
    silent.append(("Including non-PyTorch memory, this process has", "0 bytes"))
    told("ranks_without_amounts", "other-process", "own-device", listed("130.00 MiB", "12.81 MiB", silent, "10.47 GiB", "93.52 MiB"), setting="LOCAL_RANK", says="68.53 GiB")
    stranger = [("Process 912034 has", "0 bytes"), ("Including non-PyTorch memory, this process has", "0 bytes")]
    told("process_without_an_amount", "other-process", "end-process", listed("130.00 MiB", "12.81 MiB", stranger, "10.47 GiB", "93.52 MiB"), setting="-p 912034")
    wrong = [(who, "17179869184.00 GiB") for who, _ in stranger]
    told("process_of_2_to_64", "other-process", "end-process", listed("130.00 MiB", "12.81 MiB", wrong, "10.47 GiB", "93.52 MiB"), setting="-p 912034", absent="EiB")
    crowd = [(f"Process {3423 + n} has", f"{9.6 + 0.01 * n:.2f} GiB") for n in range(7)]
    crowd.append(("Including non-PyTorch memory, this process has", "11.30 GiB"))
    told("ranks_that_load", "other-process", "own-device", listed("130.00 MiB", "12.81 MiB", crowd, "10.47 GiB", "93.52 MiB"), setting="set_device")
    workers = [("Process 22056 has", "3.56 GiB"), ("Process 22047 has", "9.17 GiB"), ("Process 22053 has", "306.00 MiB"), ("Process 22050 has", "1.00 GiB")]
    failed = listed("1.54 GiB", "722.19 MiB", workers, "3.34 GiB", "70.13 MiB", total="14.74 GiB")
    told("workers_of_tests", "other-process", "fewer-workers", f"FAILED tests/test_step.py::TestStep::test_backward[tiny] - {failed}", setting="pytest -n 1")
    told("workers_of_one_program", "other-process", "end-process", failed, says="close to each other")
    cell = (
        "!export CUDA_VISIBLE_DEVICES=1\n!export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
        + listed("20.00 MiB", "1.12 MiB", [("Process 4009449 has", "22.37 GiB"), ("Including non-PyTorch memory, this process has", "1.29 GiB")], "977.30 MiB", "10.70 MiB", total="23.67 GiB")
    )
    told("exported_in_a_notebook", "other-process", "end-process", cell, says="a shell that ends at once", absent="already follows")


def shared_memory():
    """Machines whose GPU has the host's memory, and drivers that refuse with much free."""
    apu = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.31 GiB. GPU 0 has a total capacity of 128.00 GiB of which 780.24 MiB is free. Of the allocated memory 57.70 GiB is allocated by PyTorch, and 75.82 MiB is reserved by PyTorch but unallocated."
    told("apu_of_128", "outside-pytorch", "raise-shared-memory", apu, setting="ttm.pages_limit", says="69.46 GiB", absent="nvidia-smi")
    refused = "HIP out of memory. Tried to allocate 432.00 MiB. GPU 0 has a total capacity of 15.92 GiB of which 7.12 GiB is free. Of the allocated memory 8.08 GiB is allocated by PyTorch, and 321.96 MiB is reserved by PyTorch but unallocated.\nThis error means you ran out of memory on your GPU."
    told("hip_refused_in_comfyui", "refused", "look-at-device", refused, says="--lowvram", absent="nvidia-smi")
    metal = "### Debug Logs\n\nMPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max allowed: 27.20 GiB). Tried to allocate 292.50 MiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure)."
    told("mps_of_a_user_interface", "limit", "restart-process", metal, absent="--lowvram")


def refusals():
    """Warnings of torch 2.13 and 2.14 for each refusal of the driver."""
    line = "[W906 15:02:06.{micros} CUDACachingAllocator.cpp:3934] memory allocation failed with OOM on device 0 while trying to allocate {size} bytes (free: {free}, total: {total}).\n"
    three = "".join(line.format(micros=micros, size=1000341504, free=free, total=25243287552) for micros, free in ((204334026, 916848640), (316616145, 421920768), (316675221, 421920768)))
    cut = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 954.00 MiB. GPU 0 has a total capa"
    told("refusals_before_a_cut_message", "unknown", "shrink", three + cut, says="874.38 MiB")
    told("cut_behind_an_amount", "unknown", "shrink", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 954.00 MiB. GPU 0 has a total capacity of 23.51 GiB of which 402.38 MiB", says="402.38 MiB was free")
    lost = line.format(micros=1, size=467664896, free=104280064, total=7913803776)
    nvml = (
        f'  File "{FILES}/torch/nn/modules/module.py", line 1329, in convert\n    return t.to(\n'
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/opt/pytorch/c10/cuda/CUDACachingAllocator.cpp":1131, please report a bug to PyTorch.'
    )
    told("refusal_and_lost_numbers", "too-big", "less-weights", lost + nvml, says="446.00 MiB")
    told("refusal_at_the_end", "unknown", "shrink", lost, size=467664896, free=104280064, total=7913803776, gpu=0)
    server = "INFO 09-01 10:00:00 [gpu_model_runner.py:2000] Model loading took 14.2 GiB\n"
    told("refusal_of_a_server", "unknown", "lower-share", server + line.format(micros=1, size=253755392, free=191627264, total=15636037632), absent="shorter sequences")
    steps = "".join(f"step {step} loss 2.{step}\n" for step in range(30))
    told("refusal_and_more_steps", "warning", "shrink", lost + steps, says="goes on")
    character = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU \x01 has a to\ntal capacity of 23.67 GiB of which 1.59 GiB is free. Including non-PyTorch memory, this process has\n 22.06 GiB memory in use. Of the allocated memory 19.75 GiB is allocated by PyTorch, and 1.78 GiB i\ns reserved by PyTorch but unallocated."
    told("number_as_a_character", "too-big", "shrink", f"[rank1]: {character}", says="1.59 GiB")
    lost_number = character.replace("\x01", "")
    told("after_an_evaluation", "fragmentation", "expandable-segments", f"All is well with eval off; with it, training ends after the first eval.\n[rank1]: {lost_number}", says="empty_cache")


def sizes():
    """Sizes that no GPU has, and one that only pictures need."""
    kernel = (
        f'  File "{FILES}/diff_gaussian_rasterization/__init__.py", line 92, in forward\n'
        "    num_rendered, color, radii, geomBuffer, binningBuffer, imgBuffer = _C.rasterize_gaussians(*args)\n"
        + full("67109892.01 GiB", "23.69 GiB", "17.17 GiB", "6.51 GiB", "6.16 GiB", "21.80 MiB")
    )
    told("size_of_an_extension", "never-fits", "rebuild-extension", kernel, absent="-r 2")
    hook = (
        '[rank2]:   File "/usr/local/lib/python3.10/dist-packages/lightning/pytorch/trainer/call.py", line 210, in _call_callback_hooks\n'
        "[rank2]:     fn(trainer, trainer.lightning_module, *args, **kwargs)\n"
        "[rank2]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory."
    )
    told("size_of_a_collective", "never-fits", "match-collectives", hook, setting="TORCH_DISTRIBUTED_DEBUG")
    patches = "   attn_output = F.scaled_dot_product_attention(q, k, v, attention_mask, dropout_p=0.0)\n" + full("8.11 GiB", "31.36 GiB", "5.76 GiB", "25.58 GiB", "24.73 GiB", "260.07 MiB")
    told("attention_to_images", "too-big", "fewer-pixels", f"- `llamafactory` version: 0.9.3.dev0\n\n{patches}", setting="image_max_pixels")
    eager = f'  File "{FILES}/transformers/models/siglip/modeling_siglip.py", line 300, in forward\n    attn_weights = torch.matmul(q, k.transpose(2, 3)) * scale\n'
    told("scores_of_images", "too-big", "fewer-pixels", eager + full("9.11 GiB", "31.36 GiB", "5.76 GiB", "25.58 GiB", "24.73 GiB", "260.07 MiB"))
    vision = (
        '  File "/srv/compiled/unsloth_compiled_module_qwen2_vl.py", line 393, in VisionSdpaAttention_forward\n'
        "    attn_output = F.scaled_dot_product_attention(q, k, v, attention_mask, dropout_p=0.0)\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 272.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 60.47 GiB is free."
    )
    told("attention_to_large_images", "never-fits", "fewer-pixels", vision, setting="flash_attention_2")


def engines():
    """Servers: what they loaded, counted or tested when it failed."""
    tries = full("72.00 MiB", "23.64 GiB", "32.75 MiB", "23.58 GiB", "16.93 GiB", "87.06 MiB") + "\n[01-14 16:34:29] Error while loading customized transformer, falling back to native version"
    told("loader_tries_again", "too-big", "less-weights", f"$ sglang serve --model-path a/model --dit-layerwise-offload\n{tries}", setting="--dit-cpu-offload", says="a later one")
    pages = "python -m sglang.launch_server --tp-size 8 --page-size 64\nRuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 148 tokens.\nAvaliable tokens: 2048\n"
    told("pages_of_a_cache", "kv-cache", "newer-release", pages, setting="--page-size 1", says="32 pages", tokens=148, available=2048)
    between = "With a draft model:\n--mem-fraction-static 0.85: torch.OutOfMemoryError: CUDA out of memory\n--mem-fraction-static 0.84: RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n--chunked-prefill-size and --max-running-requests make no difference."
    told("between_shares_after_all_else", "engine-share", "less-weights", between, setting="--tp 2")
    warm_up = (
        f"(VllmWorker rank=1 pid=2978) ERROR 03-19 07:27:53 [multiproc_executor.py:375] {listed('1.74 GiB', '605.88 MiB', [('Process 133288 has', '22.97 GiB')], '20.21 GiB', '185.98 MiB', 1, '23.57 GiB')}\n"
        'ERROR 03-19 07:27:53 [core.py:340]     self.collective_rpc("compile_or_warm_up_model")'
    )
    told("warm_up_of_all_sequences", "engine-share", "fewer-sequences", warm_up, setting="--max-num-seqs")
    flux = "- **Node Type:** FluxTrainLoop\n- **Exception Type:** torch.OutOfMemoryError\n- **Exception Message:** Allocation on device \n"
    told("comfyui_trains", "unknown", "offload", flux, setting="blocks_to_swap")


def others():
    """Errors without numbers, and ends by a signal."""
    trainer = "llamafactory-cli train sft.yaml\n\nper_device_train_batch_size: 1\n\ntorch.AcceleratorError: CUDA error: out of memory"
    told("driver_error_of_a_trainer", "outside-pytorch", "look-at-device", trainer, says="CUDA_LAUNCH_BLOCKING", absent="batch_size: 1")
    victim = (
        "kernel: oom-kill:constraint=CONSTRAINT_MEMCG,\n  oom_memcg=/kubepods.slice/kubepods-pod92.slice,\n  task=ray::IDLE,pid=1703792,uid=0\n"
        "kernel: Memory cgroup out of memory:\n  Killed process 1703792 (ray::IDLE) total-vm:68545920kB, anon-rss:37760kB,\n  file-rss:77744kB, shmem-rss:0kB, oom_score_adj:1000"
    )
    told("small_victim_of_a_limit", "host-memory", "find-growing", victim, says="ray::IDLE", pid=1703792, raw_kb=37760)
    told("signal_to_a_launcher", "host-memory", "look-at-kernel", "torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: -9) local_rank: 0 (pid: 1322) of binary: /opt/env/bin/python", setting="dmesg")


def of_context():
    """All of them."""
    ranks()
    shared_memory()
    refusals()
    sizes()
    engines()
    others()
