//! Engines' start-up lines, as their releases print them.

use highwater_oom::EngineLog;

#[expect(clippy::unnecessary_wraps, reason = "what it is compared with may be absent")]
fn gib(gib: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a printed number")]
    Some((gib * f64::from(1 << 30)).round() as u64)
}

#[test]
fn vllm_v0() {
    let log = EngineLog::read(
        b"INFO 12-20 10:00:00 llm_engine.py:234] Initializing an LLM engine (v0.6.6.post1) with config: model='meta-llama/Llama-3.1-8B', \
          dtype=torch.bfloat16, max_seq_len=20000, tensor_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto\n\
          INFO 12-20 10:00:09 model_runner.py:1094] Loading model weights took 14.9888 GB\n\
          INFO 12-20 10:00:14 worker.py:241] Memory profiling takes 4.44 seconds\n\
          INFO 12-20 10:00:14 worker.py:241] the current vLLM instance can use total_gpu_memory (23.58GiB) x gpu_memory_utilization (0.90) = 21.22GiB\n\
          INFO 12-20 10:00:14 worker.py:241] model weights take 14.99GiB; non_torch_memory takes 0.35GiB; PyTorch activation peak memory \
          takes 2.07GiB; the rest of the memory reserved for KV Cache is 3.81GiB.\n\
          INFO 12-20 10:00:14 gpu_executor.py:76] # GPU blocks: 1952, # CPU blocks: 2048\n\
          INFO 12-20 10:00:14 gpu_executor.py:80] Maximum concurrency for 20000 tokens per request: 1.56x\n\
          INFO 12-20 10:00:36 model_runner.py:1563] Graph capturing finished in 22 secs, took 0.21 GiB\n",
    )
    .unwrap();
    assert_eq!((log.engine, log.version.as_deref()), (Some("vllm"), Some("0.6.6.post1")));
    assert_eq!((log.model.as_deref(), log.max_model_len), (Some("meta-llama/Llama-3.1-8B"), Some(20_000)));
    assert_eq!((log.is_eager, log.quantization.as_deref(), log.kv_dtype.as_deref()), (Some(false), None, Some("auto")));
    let printed = log.printed();
    assert_eq!(
        (printed.total_bytes, printed.budget_bytes, printed.weights_bytes),
        (gib(23.58), gib(21.22), gib(14.9888))
    );
    assert_eq!((printed.non_torch_bytes, printed.activation_peak_bytes), (gib(0.35), gib(2.07)));
    assert_eq!((printed.gpu_blocks, printed.graph_bytes), (Some(1952), gib(0.21)));
    assert_eq!(printed.kv_cache_bytes.and_then(|bytes| u64::try_from(bytes).ok()), gib(3.81));
    assert_eq!(printed.max_concurrency.unwrap().millionths, 1_560_000);
    assert_eq!(log.utilization.unwrap().millionths, 900_000);
}

#[test]
fn vllm_v1_of_two_ranks() {
    let log = EngineLog::read(
        b"(EngineCore_DP0 pid=7) INFO 08-01 [core.py:94] Initializing a V1 LLM engine (v0.26.0) with config: model='q/q', max_seq_len=32768\n\
          (Worker_TP0 pid=8) INFO 08-01 [gpu_model_runner.py:4365] Model loading took 14.33 GiB memory and 20.5 seconds\n\
          (Worker_TP1 pid=9) INFO 08-01 [gpu_model_runner.py:4365] Model loading took 14.33 GiB memory and 20.7 seconds\n\
          (Worker_TP0 pid=8) INFO 08-01 [gpu_worker.py:424] Available KV cache memory: 12.26 GiB\n\
          (Worker_TP1 pid=9) INFO 08-01 [gpu_worker.py:424] Available KV cache memory: -0.24 GiB\n\
          (EngineCore_DP0 pid=7) INFO 08-01 [kv_cache_utils.py:1710] GPU KV cache size: 178,880 tokens, Maximum concurrency for 32,768 tokens per request: 5.46x\n\
          (Worker_TP0 pid=8) DEBUG 08-01 [gpu_worker.py:1055] Free memory on device cuda:0 (30.27/31.4 GiB) on startup. Desired GPU memory \
          utilization is (0.92, 28.88 GiB). Actual usage is 15.03 GiB for consumed memory (weights + non-torch), 1.59 GiB for peak activation, \
          and 0.09 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1 (12.1 GiB)`.\n",
    )
    .unwrap();
    let tp0 = log.ranks.iter().find(|rank| rank.rank == Some(0)).unwrap();
    assert_eq!((tp0.consumed_bytes, tp0.activation_peak_bytes, tp0.graph_bytes), (gib(15.03), gib(1.59), gib(0.09)));
    assert_eq!((tp0.total_bytes, tp0.budget_bytes), (gib(31.4), gib(28.88)));
    let printed = log.printed();
    assert_eq!(printed.kv_cache_bytes, Some(-257_698_038));
    assert_eq!((printed.kv_tokens, log.max_model_len), (Some(178_880), Some(32_768)));
}

#[test]
fn sglang_and_llama_cpp() {
    let log = EngineLog::read(
        b"[2025-06-20 10:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3-8B-FP8', mem_fraction_static=0.874, tp_size=1)\n\
          [2025-06-20 10:00:10] Load weight begin. avail mem=30.90 GB\n\
          [2025-06-20 10:00:20] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=21.96 GB, mem usage=8.81 GB.\n\
          [2025-06-20 10:00:20] KV Cache is allocated. #tokens: 132681, K size: 9.11 GB, V size: 9.11 GB\n\
          [2025-06-20 10:00:20] Memory pool end. avail mem=3.46 GB\n",
    )
    .unwrap();
    let printed = log.printed();
    assert_eq!((log.engine, log.mem_fraction_static.unwrap().value()), (Some("sglang"), 0.874));
    assert_eq!(
        (printed.weights_bytes, printed.free_after_pool_bytes, printed.kv_tokens),
        (gib(8.81), gib(3.46), Some(132_681))
    );
    assert_eq!(printed.kv_cache_bytes, Some(2 * 9_781_788_017));
    let log = EngineLog::read(
        b"load_tensors: offloaded 33/33 layers to GPU\nload_tensors:        CUDA0 model buffer size =  4403.49 MiB\n\
          load_tensors:   CPU_Mapped model buffer size =   281.81 MiB\nllama_context: n_ctx         = 8192\n\
          llama_kv_cache_unified:      CUDA0 KV buffer size =  1024.00 MiB\nllama_context:  CUDA_Host compute buffer size =    24.01 MiB\n\
          llama_context:      CUDA0 compute buffer size =   560.00 MiB\n",
    )
    .unwrap();
    let printed = log.printed();
    assert_eq!((log.engine, log.max_model_len), (Some("llama.cpp"), Some(8192)));
    assert_eq!((printed.weights_bytes, printed.kv_cache_bytes), (Some(4_617_393_930), Some(1 << 30)));
    assert_eq!((printed.compute_bytes, printed.layers), (Some(560 << 20), Some(33)));
}

/// At a first start vLLM compiles; later it reads what it has compiled.
#[test]
fn a_log_tells_whether_it_compiled() {
    let compiles = |line: &str| {
        let log = format!("(EngineCore pid=1) INFO [core.py:112] Initializing a V1 LLM engine (v0.22.0)\n{line}\n");
        EngineLog::read(log.as_bytes()).unwrap().compiles
    };
    assert!(compiles("INFO 09-03 [backends.py:393] Compiling a graph for compile range (1, 2048) takes 9.43 s"));
    assert!(compiles("INFO 01-23 [backends.py:218] Compiling a graph for dynamic shape takes 10.00 s"));
    let later = "INFO 06-04 [backends.py:292] Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.874 s";
    assert!(!compiles(later));
}

/// As people paste commands: an option in each line.
#[test]
fn a_command_may_go_on_in_the_next_lines() {
    let log = EngineLog::read(
        b"python3 -m sglang.launch_server \\\n        --model-path /models/a \\\n        --tp-size 16 --nnodes 1 \\\n        \
          --mem-fraction-static 0.90 \\\n        --port 8000\n        --chunked-prefill-size 2048\n",
    )
    .unwrap();
    assert_eq!((log.engine, log.tensor_parallel), (Some("sglang"), Some(16)));
    assert_eq!(log.mem_fraction_static.map(|share| share.millionths), Some(900_000));
    // The line before it ends the command.
    assert_eq!(log.max_num_batched_tokens, None);
}
