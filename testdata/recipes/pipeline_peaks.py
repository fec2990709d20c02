"""Pipelines of diffusers with few layers, one generation of two steps, and their peaks.

    pipeline_peaks.py OUT.jsonl NAME      # one; a process of its own
    pipeline_peaks.py --list

Run over the null GPU (`highwater dryrun --gpu h100 testdata/recipes/pipeline_peaks.py OUT.jsonl NAME`) for each name it makes
testdata/estimates/pipelines.jsonl: the configuration as `highwater estimate` reads it, the set-up, and the peak of requested bytes in each phase.
Needs diffusers 0.42, transformers 5.24, accelerate and torch 2.11. Widths are those of the published models.
"""

import json
import sys

import torch

T5 = {"architectures": ["T5EncoderModel"], "d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "feed_forward_proj": "gated-gelu"}
CLIP_L = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12, "projection_dim": 768, "hidden_act": "quick_gelu"}
CLIP_G = {"hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20, "projection_dim": 1280, "hidden_act": "gelu"}
QWEN = {"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28, "num_key_value_heads": 4}
EYES = {"hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584}
SD3 = {"sample_size": 128, "num_attention_heads": 24, "attention_head_dim": 64, "joint_attention_dim": 4096, "caption_projection_dim": 1536, "pooled_projection_dim": 2048, "out_channels": 16, "pos_embed_max_size": 192}  # fmt: skip
VAE = {"block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "latent_channels": 16, "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "use_quant_conv": False, "use_post_quant_conv": False, "sample_size": 1024, "scaling_factor": 1.5305, "shift_factor": 0.0609}  # fmt: skip

# Kind, offloading, height, width, frames, layers of the text encoders and of the transformer.
RUNS = [
    ("sd3", "none", 1024, 1024, 1, 2),
    ("sd3", "model", 1024, 1024, 1, 2),
    ("sd3", "sequential", 1024, 1024, 1, 2),
    ("sd3", "none", 1344, 768, 1, 3),
    ("sd3", "model", 512, 512, 1, 4),
    ("qwen-image", "none", 1024, 1024, 1, 2),
    ("qwen-image", "model", 1024, 1024, 1, 2),
    ("qwen-image", "sequential", 1024, 1024, 1, 2),
    ("qwen-image", "none", 928, 1664, 1, 3),
    ("wan-1.3b", "none", 480, 832, 81, 2),
    ("wan-1.3b", "model", 480, 832, 33, 2),
    ("wan-1.3b", "sequential", 480, 832, 33, 2),
    ("wan-14b", "none", 480, 832, 81, 2),
    ("wan-14b", "model", 480, 832, 81, 2),
    ("wan-14b", "none", 720, 1280, 33, 2),
    ("wan-14b", "none", 720, 1280, 81, 1),
    ("wan-14b", "none", 480, 832, 1, 2),
]


def named(run):
    kind, offload, height, width, frames, layers = run
    return f"{kind}, {layers} layers, {frames} of {height} x {width}, offload {offload}"


def configuration(kind, layers):
    """What `model_index.json` and the `config.json` of each model say."""
    if kind == "sd3":
        parts = {
            "text_encoder": {"model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"], **CLIP_L},
            "text_encoder_2": {"model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"], **CLIP_G, "num_hidden_layers": layers},
            "text_encoder_3": {"model_type": "t5", **T5, "vocab_size": 32128, "num_layers": layers},
            "transformer": {"_class_name": "SD3Transformer2DModel", **SD3, "num_layers": layers},
            "vae": {"_class_name": "AutoencoderKL", **VAE},
        }
        return {"_class_name": "StableDiffusion3Pipeline", "components": parts}
    if kind == "qwen-image":
        encoder = {"text_config": {"model_type": "qwen2_5_vl_text", **QWEN, "num_hidden_layers": layers}, "vision_config": {**EYES, "depth": layers}}
        parts = {
            "text_encoder": {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "tie_word_embeddings": False, **encoder},
            "transformer": {"_class_name": "QwenImageTransformer2DModel", "num_layers": layers},
            "vae": {"_class_name": "AutoencoderKLQwenImage"},
        }
        return {"_class_name": "QwenImagePipeline", "components": parts}
    sizes = {"num_attention_heads": 12, "ffn_dim": 8960} if kind == "wan-1.3b" else {"num_attention_heads": 40, "ffn_dim": 13824}
    parts = {
        "text_encoder": {"model_type": "umt5", **T5, "vocab_size": 256384, "num_layers": layers},
        "transformer": {"_class_name": "WanTransformer3DModel", **sizes, "num_layers": layers},
        "vae": {"_class_name": "AutoencoderKLWan"},
    }
    return {"_class_name": "WanPipeline", "components": parts}


class Tokens:
    """A tokenizer that fills every text up to its longest length."""

    def __init__(self, tokens):
        self.model_max_length = tokens

    def __call__(self, text, **_):
        import transformers

        count = len(text) if isinstance(text, list) else 1
        shape = (count, self.model_max_length)
        return transformers.BatchEncoding({"input_ids": torch.full(shape, 5), "attention_mask": torch.ones(shape, dtype=torch.long)})

    def batch_decode(self, ids):
        return ["x"] * len(ids)


def model_of(name, fields, dtype, device):
    """A model with memory for its weights, which nothing fills."""
    import diffusers
    import transformers

    fields = dict(fields)
    if "_class_name" in fields:
        build = getattr(diffusers, fields.pop("_class_name"))
        if build.__name__ == "QwenImageTransformer2DModel":
            # Its tables of rotations are plain tensors, which the meta device would lose.
            torch.set_default_dtype(dtype)
            model = build(**fields)
            torch.set_default_dtype(torch.float32)
            return model.to(device).eval()
        with torch.device("meta"):
            model = build(**fields)
    else:
        kind, classes = fields.pop("model_type"), fields.pop("architectures")
        config = transformers.AutoConfig.for_model(kind, **fields)
        build = getattr(transformers, "UMT5EncoderModel" if kind == "umt5" else classes[0])
        with torch.device("meta"):
            model = build(config)
    model = model.to(dtype).to_empty(device=device).eval()
    if name.startswith("text"):
        model.tie_weights()
    return model


def pipeline_of(kind, parts, device):
    import diffusers

    is_wan = kind.startswith("wan")
    built = {
        name: model_of(name, fields, torch.float32 if name == "vae" and is_wan else torch.bfloat16, device) for name, fields in parts["components"].items()
    }
    tokens = {"sd3": {"tokenizer": 77, "tokenizer_2": 77, "tokenizer_3": 256}, "qwen-image": {"tokenizer": 546}}.get(kind, {"tokenizer": 512})
    others = {name: Tokens(count) for name, count in tokens.items()}
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    pipeline = getattr(diffusers, parts["_class_name"])(**built, **others, scheduler=scheduler)
    if kind == "qwen-image":
        # Which tokens are text is a question about values, and a dry run has none.
        pipeline._extract_masked_hidden = lambda hidden, mask: [hidden[0]]
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def generate(kind, offload, height, width, frames, layers):
    parts = configuration(kind, layers)
    pipeline = pipeline_of(kind, parts, "cuda" if offload == "none" else "cpu")
    models = (part for part in pipeline.components.values() if isinstance(part, torch.nn.Module))
    parameters = sum(parameter.numel() for model in models for parameter in model.parameters())
    if offload != "none":
        getattr(pipeline, f"enable_{offload}_cpu_offload")()
    peaks, reserved = {}, 0

    def done(phase):
        nonlocal reserved
        stats = torch.cuda.memory_stats()
        peaks[phase], reserved = stats["requested_bytes.all.peak"], max(reserved, stats["reserved_bytes.all.peak"])
        torch.cuda.reset_peak_memory_stats()

    encode, decode = pipeline.encode_prompt, pipeline.vae.decode

    def encoded(*given, **named):
        embeddings = encode(*given, **named)
        done("text encoding")
        return embeddings

    def decoded(*given, **named):
        done("denoising")
        return decode(*given, **named)

    pipeline.encode_prompt, pipeline.vae.decode = encoded, decoded
    torch.cuda.reset_peak_memory_stats()
    more = {"true_cfg_scale": 4.0, "negative_prompt": " "} if kind == "qwen-image" else {}
    more |= {"num_frames": frames} if kind.startswith("wan") else {}
    pipeline(prompt="x", height=height, width=width, num_inference_steps=2, output_type="pt", **more)
    done("decoding")
    setup = {"height": height, "width": width, "frames": frames, "offload": offload}
    return {"config": parts, **setup, "n_params": parameters, "peaks": peaks, "reserved": reserved}


def main():
    runs = {named(run): run for run in RUNS}
    if sys.argv[1:] == ["--list"]:
        print(*runs, sep="\n")
        return
    row = {"name": sys.argv[2], **generate(*runs[sys.argv[2]])}
    with open(sys.argv[1], "w") as out:
        out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
