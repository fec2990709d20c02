"""Peaks of many models and set-ups: a few steps of training, a forward pass or a generation each, one after the other.

    peaks.py OUT.jsonl GROUP...

Run on a GPU it makes testdata/peaks; benches/dryrun_accuracy.py runs it with none and compares. Needs torch and transformers. Each
line has the set-up, `base` (allocated before), `requested` and `allocated` (the peaks above that), and `reserved` (the peak).
"""

import gc
import json
import sys

import torch
import transformers as T

BF16, FP32 = torch.bfloat16, torch.float32

SMALL = {
    "vocab_size": 32000, "hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16, "intermediate_size": 2816,
}  # fmt: skip


def causal(kind, **options):
    """A model that predicts the next word, of six small layers."""
    return lambda attention: T.AutoModelForCausalLM.from_config(
        getattr(T, f"{kind}Config")(**{**SMALL, **options}), attn_implementation=attention
    )


def bare(config):
    """A model that predicts the next word, of the configuration's own size."""
    return lambda attention: T.AutoModelForCausalLM.from_config(config(), attn_implementation=attention)


def of(head, config):
    """Another kind of model."""
    return lambda attention: getattr(T, head).from_config(config())


DEEPSEEK = {
    "num_key_value_heads": 16, "moe_intermediate_size": 512, "n_routed_experts": 8, "n_group": 2, "topk_group": 1,
    "num_experts_per_tok": 2, "kv_lora_rank": 128, "q_lora_rank": 256, "qk_rope_head_dim": 32, "v_head_dim": 64,
    "qk_nope_head_dim": 64, "first_k_dense_replace": 1,
}  # fmt: skip
QWEN_MOE = {
    "intermediate_size": 1408, "num_key_value_heads": 4, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 1024, "num_experts": 16, "num_experts_per_tok": 4,
}  # fmt: skip
WHISPER = {
    "vocab_size": 32000, "d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "decoder_start_token_id": 1,
    "pad_token_id": 0,
}  # fmt: skip

DECODERS = {
    "mistral": causal("Mistral", num_key_value_heads=4, sliding_window=256),
    "gemma2": causal("Gemma2", vocab_size=64000, num_key_value_heads=4, head_dim=64),
    "gemma3": causal("Gemma3Text", vocab_size=64000, num_key_value_heads=4, head_dim=64, sliding_window=128),
    "phi3": causal("Phi3", num_key_value_heads=16, pad_token_id=0),
    "neox": causal("GPTNeoX"),
    "olmo2": causal("Olmo2", num_key_value_heads=16),
    "qwen3": causal("Qwen3", num_key_value_heads=4, head_dim=64),
    "mixtral": causal("Mixtral", intermediate_size=1792, num_key_value_heads=4, num_local_experts=8),
    "qwen2moe": causal("Qwen2Moe", **QWEN_MOE),
    "deepseek": causal("DeepseekV3", **DEEPSEEK),
    "opt": bare(lambda: T.OPTConfig(vocab_size=32000, hidden_size=1024, num_hidden_layers=6, num_attention_heads=16, ffn_dim=4096, word_embed_proj_dim=1024)),
    "bloom": of("AutoModelForCausalLM", lambda: T.BloomConfig(vocab_size=32000, hidden_size=1024, n_layer=6, n_head=16)),
}  # fmt: skip
OTHERS = {
    "roberta": of("AutoModelForMaskedLM", lambda: T.RobertaConfig(vocab_size=32000, num_hidden_layers=6, max_position_embeddings=600)),
    "modernbert": of("AutoModelForMaskedLM", lambda: T.ModernBertConfig(vocab_size=51000, num_hidden_layers=6)),
    "t5": of("AutoModelForSeq2SeqLM", lambda: T.T5Config(vocab_size=32000, d_model=512, num_layers=6, num_heads=8, d_ff=2048, decoder_start_token_id=0)),
    "bart": of("AutoModelForSeq2SeqLM", lambda: T.BartConfig(vocab_size=32000, d_model=768, encoder_layers=4, decoder_layers=4)),
    "whisper": lambda attention: T.WhisperForConditionalGeneration(T.WhisperConfig(**WHISPER)),
    "vit": of("AutoModelForImageClassification", lambda: T.ViTConfig(num_hidden_layers=6, num_labels=100)),
    "swin": of("AutoModelForImageClassification", lambda: T.SwinConfig(num_labels=100)),
}  # fmt: skip
PUBLISHED = {
    "gpt2": bare(T.GPT2Config),
    "qwen2.5-0.5b": bare(lambda: T.Qwen2Config(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True)),
    "llama3.2-1b": bare(lambda: T.LlamaConfig(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192, vocab_size=128256, tie_word_embeddings=True)),
    "bert-base": lambda attention: T.AutoModelForMaskedLM.from_config(T.BertConfig(), attn_implementation=attention),
    "vit-base": lambda attention: T.AutoModelForImageClassification.from_config(T.ViTConfig(num_labels=1000), attn_implementation=attention),
}  # fmt: skip
IMAGES = ("vit", "swin", "vit-base")
MODELS = {**DECODERS, **OTHERS, **PUBLISHED}

SETUPS = [
    {"b": 4, "s": 256, "dtype": "float32"},
    {"b": 2, "s": 512, "dtype": "bfloat16"},
    {"b": 4, "s": 384, "dtype": "float32", "autocast": "bfloat16"},
    {"b": 4, "s": 512, "dtype": "bfloat16", "ckpt": True},
    {"b": 3, "s": 200, "dtype": "float32", "mask": True},
    {"b": 8, "s": 512, "dtype": "bfloat16", "mode": "forward"},
    {"b": 2, "s": 100, "dtype": "bfloat16", "mode": "generate20"},
]


def rows(group):
    """The set-ups of a group."""
    if group.startswith("published"):
        # Each of three processes ran its third of them.
        yield from list(published())[int(group[-1]) :: 3]
        return
    for kind in {"decoders": DECODERS, "others": OTHERS}[group]:
        for setup in SETUPS:
            special = setup.get("mode") or setup.get("mask") or setup["dtype"] == "bfloat16"
            if kind in ("vit", "swin", "whisper") and special:
                continue
            if kind in ("roberta", "modernbert") and setup.get("mode") == "generate20":
                continue
            yield {"kind": kind, **setup}


def published():
    """The set-ups of the published models, in the order in which they were measured; 48 of them are kept in testdata/peaks."""
    for kind in ("gpt2", "qwen2.5-0.5b", "llama3.2-1b", "bert-base"):
        for b, s in ((1, 128), (4, 512), (8, 512 if kind == "bert-base" else 1024)):
            yield {"kind": kind, "b": b, "s": s, "dtype": "float32"}
            yield {"kind": kind, "b": b, "s": s, "dtype": "bfloat16"}
            yield {"kind": kind, "b": b, "s": s, "dtype": "float32", "autocast": "bfloat16"}
            yield {"kind": kind, "b": b, "s": s, "dtype": "bfloat16", "ckpt": True}
        middle = {"kind": kind, "b": 4, "s": 512, "dtype": "float32"}
        yield {**middle, "attn": "eager"}
        for opt in ("sgd", "sgd_momentum", "adamw_fused", "adamw_loop", "adafactor"):
            yield {**middle, "opt": opt}
        yield {**middle, "labels": False}
        for b, s in ((8, 512), (1, 128)):
            yield {"kind": kind, "b": b, "s": s, "dtype": "bfloat16", "mode": "forward"}
    for b in (2, 8):
        yield {"kind": "vit-base", "b": b, "s": 256, "dtype": "float32"}
        yield {"kind": "vit-base", "b": b, "s": 256, "dtype": "bfloat16", "ckpt": True}
        yield {"kind": "vit-base", "b": b, "s": 256, "dtype": "float32", "autocast": "bfloat16"}
    for kind in ("qwen2.5-0.5b", "llama3.2-1b"):
        for b, s in ((1, 128), (16, 512)):
            yield {"kind": kind, "b": b, "s": s, "dtype": "bfloat16", "mode": "generate64"}


def batch(kind, b, s, model, labels):
    """The inputs of a step."""
    dtype = next(model.parameters()).dtype
    if kind in IMAGES:
        inputs = {"pixel_values": torch.randn(b, 3, 224, 224, device="cuda", dtype=dtype)}
        return {**inputs, "labels": torch.randint(0, 100, (b,), device="cuda")} if labels and kind != "vit-base" else inputs
    words = torch.randint(5, 100, (b, s), device="cuda")
    if kind == "whisper":
        return {"input_features": torch.randn(b, 80, 3000, device="cuda", dtype=dtype), "labels": words}
    return {"input_ids": words, "labels": words} if labels else {"input_ids": words}


def optimizer(name, parameters):
    """An optimizer by name; torch's own choice of implementation if the name says none."""
    kinds = {
        "adamw": (torch.optim.AdamW, {}), "adamw_fused": (torch.optim.AdamW, {"fused": True}),
        "adamw_loop": (torch.optim.AdamW, {"foreach": False}), "sgd": (torch.optim.SGD, {}),
        "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9}), "adafactor": (torch.optim.Adafactor, {}),
    }  # fmt: skip
    kind, options = kinds[name]
    return kind(parameters, lr=1e-4, **options)


def measure(kind, b, s, dtype, *, autocast=None, ckpt=False, mask=False, mode="train", opt="adamw", attn="sdpa", labels=True):
    """Runs a set-up, and gives its peaks."""
    torch.cuda.empty_cache()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device("cuda"):
            model = MODELS[kind](attn)
    finally:
        torch.set_default_dtype(FP32)
    if mode == "train":
        train(model, kind, b, s, autocast, ckpt, mask, opt, labels)
    else:
        model.eval()
        with torch.no_grad():
            inputs = batch(kind, b, s, model, kind in ("t5", "bart"))
            if mode.startswith("generate"):
                count = int(mode[8:])
                model.generate(inputs["input_ids"], max_new_tokens=count, min_new_tokens=count, do_sample=False)
            else:
                model(**inputs)
    stats = torch.cuda.memory_stats()
    return {
        "base": base,
        "requested": stats["requested_bytes.all.peak"] - base,
        "allocated": stats["allocated_bytes.all.peak"] - base,
        "reserved": stats["reserved_bytes.all.peak"],
    }


def train(model, kind, b, s, autocast, ckpt, mask, opt, labels):
    """Three steps. Those of the published models keep the output to the next step, as many loops do."""
    published = kind in PUBLISHED
    model.train()
    steps = optimizer(opt, model.parameters())
    if ckpt:
        model.gradient_checkpointing_enable()
    for _ in range(3):
        inputs = batch(kind, b, s, model, labels)
        if mask:
            lengths = torch.tensor([s - 17 * row for row in range(b)])
            inputs["attention_mask"] = (torch.arange(s)[None] < lengths[:, None]).long().cuda()
        with torch.autocast("cuda", dtype=getattr(torch, autocast or "bfloat16"), enabled=autocast is not None):
            out = model(**inputs)
            loss = out.loss if labels and kind != "vit-base" else out.logits.mean()
        if not published:
            del out
        loss.backward()
        if not published:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        steps.zero_grad()
        if not published:
            loss.item()


def main():
    torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
    with open(sys.argv[1], "w") as out:
        for group in sys.argv[2:]:
            for setup in rows(group):
                measured = measure(**setup)
                gc.collect()
                out.write(json.dumps({**setup, **measured}) + "\n")
                out.flush()


if __name__ == "__main__":
    main()
