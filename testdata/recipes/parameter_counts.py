"""Counts the parameters of configurations: `parameter_counts.py OUT.jsonl`. Models are built on the meta device.

Each line has the configuration as a user's `config.json` has it, and what transformers makes of it.
"""

import json
import sys

import torch
import transformers

HEADS = {"bert": "MaskedLM", "roberta": "MaskedLM", "modernbert": "MaskedLM", "vit": "ImageClassification", "clip": "", "t5": "Seq2SeqLM", "siglip": "", "siglip_vision_model": "", "dinov2": "", "bart": "Seq2SeqLM", "wav2vec2": "CTC", "whisper": "SpeechSeq2Seq"}  # fmt: skip
LLAMA = {"vocab_size": 1003, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 250}
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 36}
DEEPSEEK = {
    "moe_intermediate_size": 40, "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "kv_lora_rank": 24,
    "q_lora_rank": 32, "qk_rope_head_dim": 8, "v_head_dim": 20, "qk_nope_head_dim": 12, "first_k_dense_replace": 1,
}  # fmt: skip
GPT2 = {"vocab_size": 1003, "n_embd": 96, "n_layer": 3, "n_head": 6, "n_positions": 65}
BERT = {**LLAMA, "max_position_embeddings": 77}
T5 = {"vocab_size": 1003, "d_model": 96, "num_layers": 3, "num_heads": 5, "d_kv": 24, "d_ff": 250}
WHISPER = {
    "vocab_size": 1003, "d_model": 96, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6, "max_source_positions": 75,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 250, "decoder_ffn_dim": 190, "num_mel_bins": 13, "max_target_positions": 33, "pad_token_id": 0,
}  # fmt: skip
VIT = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 250}
CLIP_TEXT = {"vocab_size": 1003, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 100}

# Families of today: transformers 5.23.
SMALL = {"vocab_size": 1003, "hidden_size": 96, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 250}
HALF = {**LLAMA, "num_key_value_heads": 2}
DELTA = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 12}
SHARED = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 28}
LATENT = {**DEEPSEEK, "index_n_heads": 4, "index_head_dim": 16}
MAMBA = {"vocab_size": 1003, "hidden_size": 96, "num_hidden_layers": 3}
MAMBA2 = {"mamba_n_heads": 12, "mamba_d_head": 16, "mamba_expand": 2, "mamba_d_state": 8}
WINDOWS = ["sliding_attention", "full_attention"] * 3
TODAY = [
    ("gpt_oss", {**SMALL, "num_local_experts": 6}),
    ("gpt_oss", {**SMALL, "num_local_experts": 4, "attention_bias": False, "tie_word_embeddings": True}),
    ("llama4_text", {**SMALL, "intermediate_size_mlp": 300, "num_local_experts": 4}),
    ("llama4_text", {**SMALL, "intermediate_size_mlp": 300, "num_local_experts": 4, "interleave_moe_layer_step": 2}),
    ("qwen3_next", {**SMALL, **DELTA, **SHARED}),
    ("qwen3_next", {**SMALL, **DELTA, **SHARED, "layer_types": ["full_attention", "linear_attention"] * 3, "mlp_only_layers": [1, 2]}),
    ("qwen3_5_text", {**SMALL, **DELTA}),
    ("qwen3_5_text", {**SMALL, **DELTA, "num_hidden_layers": 9, "tie_word_embeddings": True}),
    ("qwen3_5_moe_text", {**SMALL, **DELTA, **SHARED}),
    ("glm4_moe", {**SMALL, "n_routed_experts": 8, "moe_intermediate_size": 20}),
    ("glm4_moe", {**SMALL, "n_routed_experts": 8, "moe_intermediate_size": 20, "use_qk_norm": True, "attention_bias": True, "n_shared_experts": 2}),
    ("glm", {**SMALL, "pad_token_id": 0}),
    ("glm4", {**SMALL, "pad_token_id": 0, "tie_word_embeddings": True}),
    ("gemma3n_text", {**SMALL, "vocab_size_per_layer_input": 1001, "hidden_size_per_layer_input": 12, "num_kv_shared_layers": 2, "layer_types": WINDOWS}),
    ("gemma4_text", {**SMALL, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 1001}),
    ("gemma4_text", {**SMALL, "hidden_size_per_layer_input": 0, "global_head_dim": 40, "num_global_key_value_heads": 1, "attention_k_eq_v": True, "layer_types": WINDOWS}),
    ("gemma4_text", {**SMALL, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 1003, "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "layer_types": WINDOWS}),
    ("gemma4_text", {**SMALL, "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 22}),
    ("cohere", SMALL),
    ("cohere", {**LLAMA, "num_key_value_heads": 2, "use_qk_norm": True}),
    ("cohere2", SMALL),
    ("granite", {**SMALL, "attention_bias": True, "mlp_bias": True}),
    ("granitemoe", {**SMALL, "num_local_experts": 4}),
    ("granitemoehybrid", {**SMALL, **MAMBA2, "num_local_experts": 4, "layer_types": ["mamba", "attention"] * 3, "shared_intermediate_size": 33}),
    ("granitemoehybrid", {**SMALL, **MAMBA2, "num_local_experts": 0, "layer_types": ["mamba", "mamba", "attention"] * 2, "shared_intermediate_size": 33, "tie_word_embeddings": True}),
    ("falcon_h1", {**SMALL, "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_d_state": 8}),
    ("falcon_h1", {**SMALL, **MAMBA2, "mamba_d_ssm": None, "mamba_rms_norm": True, "mamba_n_groups": 2, "tie_word_embeddings": True}),
    # `head_dim` is another name of `qk_rope_head_dim` there.
    ("glm4_moe_lite", {key: value for key, value in {**SMALL, **DEEPSEEK}.items() if key != "head_dim"}),
    ("mamba", MAMBA),
    ("mamba", {**MAMBA, "use_bias": True, "use_conv_bias": False, "time_step_rank": 5, "tie_word_embeddings": False}),
    ("mamba2", {**MAMBA, "num_heads": 12, "head_dim": 16, "state_size": 8, "n_groups": 2}),
    ("jamba", {**SMALL, "num_experts": 4, "mamba_dt_rank": 6}),
    ("jamba", {**SMALL, "num_hidden_layers": 8, "num_experts": 4, "attn_layer_period": 4, "attn_layer_offset": 2, "expert_layer_period": 3, "expert_layer_offset": 0}),
    ("nemotron_h", {**SMALL, "hybrid_override_pattern": "M-M*E-", "mamba_num_heads": 12, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 2, "moe_intermediate_size": 30, "moe_shared_expert_intermediate_size": 31}),
    ("nemotron_h", {**SMALL, "hybrid_override_pattern": "M*E-", "mamba_num_heads": 12, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 2, "moe_intermediate_size": 30, "moe_shared_expert_intermediate_size": 31, "moe_latent_size": 24}),
    ("rwkv", {"vocab_size": 1003, "hidden_size": 96, "num_hidden_layers": 3}),
    ("rwkv", {"vocab_size": 1003, "hidden_size": 96, "num_hidden_layers": 2, "attention_hidden_size": 64, "intermediate_size": 100, "tie_word_embeddings": True}),
    ("deepseek_v32", {**LLAMA, **LATENT}),
    ("glm_moe_dsa", {**LLAMA, **LATENT, "mlp_layer_types": ["dense", "sparse", "sparse"]}),
    ("phimoe", {**HALF, "num_local_experts": 4, "lm_head_bias": True}),
    ("starcoder2", HALF),
    ("stablelm", {**HALF, "use_qkv_bias": True}),
    ("ministral3", SMALL),
    ("seed_oss", SMALL),
    ("smollm3", {**HALF, "pad_token_id": 0}),
    ("exaone4", HALF),
    ("nemotron", SMALL),
    ("minimax_m2", {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("ernie4_5", {**SMALL, "use_bias": True}),
    ("olmoe", {**HALF, "num_experts": 4, "num_experts_per_tok": 2}),
    ("hunyuan_v1_dense", SMALL),
    ("helium", SMALL),
]  # fmt: skip

# Encoders, and language models that see; `ImageTextToText` is their head.
EYES = {"hidden_size": 96, "intermediate_size": 250, "num_hidden_layers": 2, "num_attention_heads": 6, "image_size": 64, "patch_size": 16}
QWEN_EYES = {"hidden_size": 48, "out_hidden_size": 96, "depth": 2, "num_heads": 4, "intermediate_size": 100}
NO_INPUTS = {**SMALL, "hidden_size_per_layer_input": 0}
SEEING = [
    ("siglip_vision_model", EYES),
    ("siglip_vision_model", {**EYES, "vision_use_head": False, "num_channels": 4}),
    ("siglip", {"vision_config": EYES, "text_config": {"vocab_size": 1003, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 4}}),
    ("dinov2", {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "image_size": 56, "patch_size": 14}),
    ("dinov2", {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 70, "patch_size": 14, "use_swiglu_ffn": True, "qkv_bias": False}),
    ("bart", {"vocab_size": 1003, "d_model": 96, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6, "decoder_attention_heads": 4, "encoder_ffn_dim": 250, "decoder_ffn_dim": 190, "max_position_embeddings": 65}),
    ("wav2vec2", {"vocab_size": 33, "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 250, "conv_dim": [32] * 7}),
    ("wav2vec2", {"vocab_size": 33, "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 250, "feat_extract_norm": "layer", "conv_bias": True, "do_stable_layer_norm": True}),
    ("gemma3", {"text_config": SMALL, "vision_config": {**EYES, "vision_use_head": False}}),
    ("gemma3", {"text_config": SMALL, "vision_config": EYES}),
    ("llava", {"text_config": {**SMALL, "model_type": "llama"}, "vision_config": {**EYES, "model_type": "clip_vision_model", "projection_dim": 40}}),
    ("llava_next", {"image_grid_pinpoints": [[336, 672], [672, 672]], "text_config": {**SMALL, "model_type": "llama"}, "vision_config": {**EYES, "model_type": "clip_vision_model", "projection_dim": 40}}),
    ("qwen2_vl", {"text_config": {**SMALL, "model_type": "qwen2_vl_text"}, "vision_config": {"embed_dim": 48, "hidden_size": 96, "depth": 2, "num_heads": 4, "mlp_ratio": 4}}),
    ("qwen2_5_vl", {"text_config": {**SMALL, "model_type": "qwen2_5_vl_text"}, "vision_config": QWEN_EYES}),
    ("qwen3_vl", {"text_config": SMALL, "vision_config": {**QWEN_EYES, "deepstack_visual_indexes": [0, 1]}}),
    ("qwen3_vl_moe", {"text_config": {**SMALL, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 36}, "vision_config": {**QWEN_EYES, "deepstack_visual_indexes": [1]}}),
    ("qwen3_5", {"text_config": {**SMALL, **DELTA}, "vision_config": QWEN_EYES}),
    ("qwen3_5_moe", {"text_config": {**SMALL, **DELTA, **SHARED}, "vision_config": QWEN_EYES}),
    ("mistral3", {"text_config": {**SMALL, "model_type": "mistral"}, "vision_config": {**EYES, "model_type": "pixtral", "head_dim": 16}}),
    ("gemma4", {"text_config": NO_INPUTS, "vision_config": {"hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 12}}),
    ("llama4", {"text_config": {**SMALL, "num_local_experts": 2, "intermediate_size_mlp": 300}, "vision_config": {"hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64, "patch_size": 16, "vision_output_dim": 64, "projector_input_dim": 64, "projector_output_dim": 64}}),
]  # fmt: skip

# Transformers of diffusers 0.42.
DIFFUSERS = [
    ("FluxTransformer2DModel", {"num_layers": 2, "num_single_layers": 3, "attention_head_dim": 16, "num_attention_heads": 4, "joint_attention_dim": 40, "pooled_projection_dim": 24, "guidance_embeds": True, "axes_dims_rope": [4, 6, 6]}),
    ("FluxTransformer2DModel", {"num_layers": 1, "num_single_layers": 2}),
    ("SD3Transformer2DModel", {"num_layers": 3, "attention_head_dim": 16, "num_attention_heads": 4, "joint_attention_dim": 40, "caption_projection_dim": 64, "pooled_projection_dim": 24}),
    ("SD3Transformer2DModel", {"num_layers": 3, "attention_head_dim": 16, "num_attention_heads": 4, "joint_attention_dim": 40, "caption_projection_dim": 64, "pooled_projection_dim": 24, "qk_norm": "rms_norm", "dual_attention_layers": [0, 1]}),
    ("WanTransformer3DModel", {"num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 4, "text_dim": 40, "ffn_dim": 100}),
    ("QwenImageTransformer2DModel", {"num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 4, "joint_attention_dim": 40, "axes_dims_rope": [4, 6, 6]}),
]  # fmt: skip

# Models as published, counted as the class of their `architectures`.
PUBLISHED = [
    ("resnet", {"architectures": ["ResNetForImageClassification"], "num_channels": 3, "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3], "layer_type": "bottleneck", "hidden_act": "relu", "downsample_in_first_stage": False, "downsample_in_bottleneck": False, "num_labels": 1000}),
    ("resnet", {"architectures": ["ResNetForImageClassification"], "num_channels": 3, "embedding_size": 64, "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic", "hidden_act": "relu", "downsample_in_first_stage": False, "downsample_in_bottleneck": False, "num_labels": 1000}),
    ("segformer", {"architectures": ["SegformerForSemanticSegmentation"], "num_channels": 3, "num_encoder_blocks": 4, "depths": [2, 2, 2, 2], "sr_ratios": [8, 4, 2, 1], "hidden_sizes": [32, 64, 160, 256], "patch_sizes": [7, 3, 3, 3], "strides": [4, 2, 2, 2], "num_attention_heads": [1, 2, 5, 8], "mlp_ratios": [4, 4, 4, 4], "decoder_hidden_size": 256, "num_labels": 150}),
    ("segformer", {"architectures": ["SegformerForImageClassification"], "num_channels": 3, "num_encoder_blocks": 4, "depths": [3, 6, 40, 3], "sr_ratios": [8, 4, 2, 1], "hidden_sizes": [64, 128, 320, 512], "patch_sizes": [7, 3, 3, 3], "strides": [4, 2, 2, 2], "num_attention_heads": [1, 2, 5, 8], "mlp_ratios": [4, 4, 4, 4], "decoder_hidden_size": 768, "num_labels": 1000}),
    ("convnext", {"architectures": ["ConvNextForImageClassification"], "num_channels": 3, "patch_size": 4, "hidden_sizes": [96, 192, 384, 768], "depths": [3, 3, 9, 3], "layer_scale_init_value": 1e-06, "image_size": 224, "num_labels": 1000}),
    ("detr", {"architectures": ["DetrForObjectDetection"], "num_queries": 100, "encoder_layers": 6, "encoder_ffn_dim": 2048, "encoder_attention_heads": 8, "decoder_layers": 6, "decoder_ffn_dim": 2048, "decoder_attention_heads": 8, "d_model": 256, "num_labels": 91, "backbone_config": {"model_type": "resnet", "hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3], "layer_type": "bottleneck"}}),
    ("nemotron_h", {"architectures": ["NemotronHForCausalLM"], "vocab_size": 131072, "hidden_size": 4096, "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"], "tie_word_embeddings": False, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 4096, "attention_bias": False, "intermediate_size": 21504, "mlp_hidden_act": "relu2", "mlp_bias": False, "ssm_state_size": 128, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "use_conv_bias": True, "mamba_proj_bias": False, "n_routed_experts": 8, "n_shared_experts": 1, "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688, "num_experts_per_tok": 2, "norm_topk_prob": True, "use_bias": False}),
    ("qwen2_moe", {"architectures": ["Qwen2MoeForCausalLM"], "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "hidden_act": "silu", "max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": 0, "max_window_layers": 28, "decoder_sparse_step": 1, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60, "norm_topk_prob": False, "mlp_only_layers": [], "qkv_bias": True}),
]  # fmt: skip

# What lies on the last layer is another by class.
TOPS = [
    ("llama", {**LLAMA, "architectures": ["LlamaForSequenceClassification"], "num_labels": 1}),
    ("mistral", {**LLAMA, "num_key_value_heads": 2, "architectures": ["MistralModel"]}),
    ("bert", {**BERT, "architectures": ["BertModel"]}),
    ("bert", {**BERT, "architectures": ["BertForSequenceClassification"], "num_labels": 3}),
    ("bert", {**BERT, "architectures": ["BertForTokenClassification"], "num_labels": 5}),
    ("xlm-roberta", {**BERT, "architectures": ["XLMRobertaModel"]}),
    ("xlm-roberta", {**BERT, "architectures": ["XLMRobertaForSequenceClassification"], "num_labels": 1}),
]  # fmt: skip

# UNets and autoencoders as published.
UNETS = [
    ("UNet2DConditionModel", {"in_channels": 4, "out_channels": 4, "sample_size": 64, "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2, "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"], "cross_attention_dim": 768, "attention_head_dim": 8, "transformer_layers_per_block": 1, "use_linear_projection": False}),
    ("UNet2DConditionModel", {"in_channels": 4, "out_channels": 4, "sample_size": 96, "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2, "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"], "cross_attention_dim": 1024, "attention_head_dim": [5, 10, 20, 20], "transformer_layers_per_block": 1, "use_linear_projection": True}),
    ("UNet2DConditionModel", {"in_channels": 4, "out_channels": 4, "sample_size": 128, "block_out_channels": [320, 640, 1280], "layers_per_block": 2, "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"], "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"], "cross_attention_dim": 2048, "attention_head_dim": [5, 10, 20], "transformer_layers_per_block": [1, 2, 10], "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816}),
    ("UNet2DModel", {"in_channels": 3, "out_channels": 3, "sample_size": 32, "block_out_channels": [224, 448, 672, 896], "layers_per_block": 2, "down_block_types": ["DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"], "attention_head_dim": 8}),
    ("AutoencoderKL", {"in_channels": 3, "out_channels": 3, "sample_size": 1024, "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"], "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"], "latent_channels": 4, "use_quant_conv": True, "use_post_quant_conv": True}),
    ("AutoencoderKL", {"in_channels": 3, "out_channels": 3, "sample_size": 1024, "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"], "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"], "latent_channels": 16, "use_quant_conv": False, "use_post_quant_conv": False}),
]  # fmt: skip

# Sizes that nothing above has: transformers 5.24.
OTHER = {"vocab_size": 2011, "hidden_size": 160, "num_hidden_layers": 5, "num_attention_heads": 10, "num_key_value_heads": 5, "head_dim": 24, "intermediate_size": 333}
OTHER_DELTA = {"linear_num_value_heads": 6, "linear_num_key_heads": 3, "linear_key_head_dim": 16, "linear_value_head_dim": 20}
OTHER_LATENT = {"vocab_size": 2011, "hidden_size": 160, "num_hidden_layers": 5, "num_attention_heads": 10, "intermediate_size": 333, "kv_lora_rank": 40, "q_lora_rank": 56, "qk_rope_head_dim": 8, "v_head_dim": 28, "qk_nope_head_dim": 20, "moe_intermediate_size": 52, "n_routed_experts": 12, "n_shared_experts": 2, "num_experts_per_tok": 3, "n_group": 3, "topk_group": 2, "first_k_dense_replace": 2}
OTHER_EYES = {"hidden_size": 120, "intermediate_size": 300, "num_hidden_layers": 3, "num_attention_heads": 5, "image_size": 80, "patch_size": 20}
# Head, kind, fields.
OTHERS = [
    ("CausalLM", "gpt_oss", {**OTHER, "num_local_experts": 7, "num_experts_per_tok": 3, "sliding_window": 64}),
    ("CausalLM", "llama4_text", {**OTHER, "intermediate_size_mlp": 410, "num_local_experts": 6, "interleave_moe_layer_step": 2, "num_hidden_layers": 7}),
    ("CausalLM", "qwen3_next", {**OTHER, **OTHER_DELTA, "num_experts": 9, "num_experts_per_tok": 3, "moe_intermediate_size": 44, "shared_expert_intermediate_size": 60, "num_hidden_layers": 8, "decoder_sparse_step": 2}),
    ("CausalLM", "glm4_moe", {**OTHER, "n_routed_experts": 10, "moe_intermediate_size": 36, "n_shared_experts": 2, "first_k_dense_replace": 3}),
    ("ImageTextToText", "qwen2_5_vl", {"text_config": {**OTHER, "model_type": "qwen2_5_vl_text"}, "vision_config": {"hidden_size": 80, "out_hidden_size": 160, "depth": 3, "num_heads": 5, "intermediate_size": 210, "patch_size": 12}}),
    ("", "siglip", {"vision_config": {**OTHER_EYES}, "text_config": {"vocab_size": 1501, "hidden_size": 120, "intermediate_size": 250, "num_hidden_layers": 4, "num_attention_heads": 6, "max_position_embeddings": 40}}),
    ("", "dinov2", {"hidden_size": 140, "num_hidden_layers": 4, "num_attention_heads": 7, "image_size": 98, "patch_size": 14, "mlp_ratio": 3, "layerscale_value": 0.5}),
    ("CTC", "wav2vec2", {"vocab_size": 55, "hidden_size": 120, "num_hidden_layers": 3, "num_attention_heads": 5, "intermediate_size": 310, "conv_dim": [48]*5, "conv_stride": [5, 2, 2, 2, 2], "conv_kernel": [10, 3, 3, 3, 2], "num_feat_extract_layers": 5, "num_conv_pos_embeddings": 64, "num_conv_pos_embedding_groups": 8}),
    ("CausalLM", "jamba", {**{k:v for k,v in OTHER.items() if k!="head_dim"}, "num_hidden_layers": 9, "num_experts": 5, "mamba_d_state": 24, "mamba_expand": 3, "attn_layer_period": 3, "attn_layer_offset": 1}),
    ("CausalLM", "mamba2", {"vocab_size": 2011, "hidden_size": 160, "num_hidden_layers": 4, "num_heads": 16, "head_dim": 20, "state_size": 24, "n_groups": 4, "expand": 2, "use_bias": True}),
    ("ImageTextToText", "gemma3", {"text_config": {**OTHER}, "vision_config": {**OTHER_EYES}, "mm_tokens_per_image": 4}),
    ("ImageTextToText", "llava", {"text_config": {**OTHER, "model_type": "mistral"}, "vision_config": {**OTHER_EYES, "model_type": "siglip_vision_model"}}),
    ("CausalLM", "rwkv", {"vocab_size": 2011, "hidden_size": 160, "num_hidden_layers": 4, "attention_hidden_size": 200, "intermediate_size": 410}),
    ("Seq2SeqLM", "bart", {"vocab_size": 2011, "d_model": 160, "encoder_layers": 4, "decoder_layers": 2, "encoder_attention_heads": 10, "decoder_attention_heads": 5, "encoder_ffn_dim": 333, "decoder_ffn_dim": 222, "max_position_embeddings": 130, "scale_embedding": True}),
    ("ObjectDetection", "detr", {"d_model": 160, "encoder_layers": 3, "decoder_layers": 4, "encoder_ffn_dim": 333, "decoder_ffn_dim": 222, "num_queries": 37, "num_labels": 19, "encoder_attention_heads": 8, "decoder_attention_heads": 8, "backbone_config": {"model_type": "resnet", "hidden_sizes": [64, 128, 256, 512], "depths": [2, 3, 2, 2], "layer_type": "basic"}}),
    ("ImageClassification", "resnet", {"embedding_size": 48, "hidden_sizes": [64, 96, 128], "depths": [2, 2, 3], "layer_type": "basic", "num_labels": 11, "num_channels": 1}),
    ("SemanticSegmentation", "segformer", {"hidden_sizes": [24, 48, 96, 120], "depths": [1, 2, 3, 2], "num_attention_heads": [1, 2, 4, 5], "decoder_hidden_size": 77, "num_labels": 9, "mlp_ratios": [3, 4, 3, 4], "architectures": ["SegformerForSemanticSegmentation"]}),
    ("CausalLM", "falcon_h1", {**OTHER, "mamba_d_ssm": 240, "mamba_n_heads": 12, "mamba_d_head": 20, "mamba_d_state": 24, "mamba_n_groups": 2, "attention_bias": True, "mlp_bias": True}),
    ("ImageClassification", "swin", {"embed_dim": 36, "depths": [2, 3, 2], "num_heads": [2, 3, 4], "window_size": 5, "image_size": 100, "patch_size": 5, "num_labels": 13}),
    ("CausalLM", "gemma3n_text", {**OTHER, "num_hidden_layers": 6, "hidden_size_per_layer_input": 20, "vocab_size_per_layer_input": 2003, "num_kv_shared_layers": 2, "laurel_rank": 12, "altup_num_inputs": 3, "layer_types": ["sliding_attention", "full_attention"]*3, "activation_sparsity_pattern": [0.0]*6}),
    ("CausalLM", "gemma4_text", {**OTHER, "num_hidden_layers": 6, "hidden_size_per_layer_input": 20, "vocab_size_per_layer_input": 2003, "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"]*3, "global_head_dim": 40}),
    ("CausalLM", "mimo_v2_flash", {**OTHER, "head_dim": 24, "v_head_dim": 16, "swa_num_key_value_heads": 10, "n_routed_experts": 8, "moe_intermediate_size": 40, "num_experts_per_tok": 2, "layer_types": ["full_attention", "sliding_attention"]*2+["full_attention"]}),
    ("CausalLM", "kimi_linear", {**{k:v for k,v in OTHER_LATENT.items() if k not in("q_lora_rank", "n_routed_experts", "n_shared_experts", "num_experts_per_tok", "n_group")}, "num_experts": 12, "num_shared_experts": 2, "num_experts_per_token": 3, "linear_num_heads": 6, "linear_head_dim": 16, "num_key_value_heads": 10, "pad_token_id": 0}),
    ("CausalLM", "deepseek_v32", {**OTHER_LATENT, "index_n_heads": 6, "index_head_dim": 24}),
    ("CausalLM", "glm_moe_dsa", {**OTHER_LATENT, "index_n_heads": 6, "index_head_dim": 24, "indexer_types": ["full", "full", "shared", "shared", "full"], "mlp_layer_types": ["dense", "dense", "sparse", "sparse", "sparse"]}),
    ("CausalLM", "nemotron_h", {**OTHER, "hybrid_override_pattern": "MEM*E-M", "mamba_num_heads": 10, "mamba_head_dim": 20, "ssm_state_size": 24, "n_groups": 5, "n_routed_experts": 6, "moe_intermediate_size": 70, "moe_shared_expert_intermediate_size": 90, "num_experts_per_tok": 2}),
    ("CausalLM", "granitemoehybrid", {**{k:v for k,v in OTHER.items() if k!="head_dim"}, "num_local_experts": 5, "mamba_n_heads": 16, "mamba_d_head": 20, "mamba_d_state": 24, "mamba_n_groups": 2, "layer_types": ["mamba", "attention", "mamba", "mamba", "attention"], "shared_intermediate_size": 77}),
]  # fmt: skip

CONFIGS = [
    ("llama", LLAMA),
    ("llama", {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 2}),
    ("llama", {**LLAMA, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}),
    ("llama", {**LLAMA, "head_dim": 40}),
    ("mistral", {**LLAMA, "num_key_value_heads": 3, "sliding_window": None}),
    ("mistral", {**LLAMA, "num_key_value_heads": 2, "head_dim": 24, "sliding_window": 7}),
    ("qwen2", {**LLAMA, "num_key_value_heads": 2, "tie_word_embeddings": True}),
    ("qwen2", {**LLAMA, "num_key_value_heads": 6, "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}),
    ("qwen3", {**LLAMA, "num_key_value_heads": 2}),
    ("qwen3", {**LLAMA, "num_key_value_heads": 2, "head_dim": 16, "attention_bias": True, "tie_word_embeddings": True}),
    ("gemma", {**LLAMA, "num_key_value_heads": 1}),
    ("gemma", {**LLAMA, "num_key_value_heads": 6, "head_dim": 16, "tie_word_embeddings": False}),
    ("gemma2", {**LLAMA, "num_key_value_heads": 3, "head_dim": 20}),
    ("gemma3_text", {**LLAMA, "num_key_value_heads": 2, "head_dim": 18}),
    ("gemma3_text", {**LLAMA, "num_key_value_heads": 2, "attention_bias": True}),
    ("phi", LLAMA),
    ("phi", {**LLAMA, "num_key_value_heads": 2, "qk_layernorm": True, "tie_word_embeddings": True}),
    ("phi3", {**LLAMA, "num_key_value_heads": 2, "pad_token_id": 0}),
    ("phi3", {**LLAMA, "pad_token_id": 0, "tie_word_embeddings": True}),
    ("gpt_neox", LLAMA),
    ("gpt_neox", {**LLAMA, "attention_bias": False, "tie_word_embeddings": True, "use_parallel_residual": False}),
    ("olmo", LLAMA),
    ("olmo", {**LLAMA, "num_key_value_heads": 2, "attention_bias": True, "tie_word_embeddings": True}),
    ("olmo2", {**LLAMA, "num_key_value_heads": 2}),
    ("olmo2", {**LLAMA, "attention_bias": True, "tie_word_embeddings": True}),
    ("olmo3", {**LLAMA, "num_key_value_heads": 2}),
    ("mixtral", {**LLAMA, "num_key_value_heads": 2, "num_local_experts": 5}),
    ("mixtral", {**LLAMA, "num_key_value_heads": 6, "tie_word_embeddings": True, "head_dim": 10}),
    ("qwen2_moe", {**LLAMA, **MOE, "num_key_value_heads": 2, "shared_expert_intermediate_size": 70}),
    ("qwen2_moe", {**LLAMA, **MOE, "num_key_value_heads": 3, "shared_expert_intermediate_size": 70, "decoder_sparse_step": 2, "qkv_bias": False}),
    ("qwen3_moe", {**LLAMA, **MOE, "num_key_value_heads": 2}),
    ("qwen3_moe", {**LLAMA, **MOE, "num_key_value_heads": 2, "head_dim": 16, "mlp_only_layers": [1], "attention_bias": True, "tie_word_embeddings": True}),
    ("deepseek_v2", {**LLAMA, **DEEPSEEK, "n_shared_experts": 2}),
    ("deepseek_v2", {**LLAMA, **DEEPSEEK, "q_lora_rank": None, "n_shared_experts": 1, "attention_bias": True}),
    ("deepseek_v3", {**LLAMA, **DEEPSEEK}),
    ("deepseek_v3", {**LLAMA, **DEEPSEEK, "q_lora_rank": None, "n_shared_experts": 3, "first_k_dense_replace": 2, "attention_bias": True, "tie_word_embeddings": True}),
    ("gpt2", GPT2),
    ("gpt2", {**GPT2, "n_inner": 100, "tie_word_embeddings": False}),
    ("bert", BERT),
    ("bert", {**BERT, "type_vocab_size": 5, "tie_word_embeddings": False}),
    ("roberta", {**BERT, "type_vocab_size": 1}),
    ("roberta", {**BERT, "tie_word_embeddings": False}),
    ("modernbert", {**LLAMA, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1, "cls_token_id": 1, "sep_token_id": 1}),
    ("modernbert", {**LLAMA, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1, "cls_token_id": 1, "sep_token_id": 1, "attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True, "decoder_bias": False, "tie_word_embeddings": False}),
    ("vit", {**VIT, "num_labels": 7, "image_size": 64, "patch_size": 8}),
    ("vit", {**VIT, "id2label": {"0": "a", "1": "b", "2": "c"}, "image_size": 50, "patch_size": 16, "num_channels": 1, "qkv_bias": False}),
    ("vit", {**VIT, "image_size": [48, 96], "patch_size": [8, 16]}),
    ("clip", {"text_config": CLIP_TEXT, "vision_config": {**VIT, "image_size": 64, "patch_size": 16}, "projection_dim": 31}),
    ("clip", {"text_config": {**CLIP_TEXT, "max_position_embeddings": 20}, "vision_config": {**VIT, "image_size": 70, "patch_size": 14, "num_channels": 4}}),
    ("t5", T5),
    ("t5", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 5}),
    ("t5", {**T5, "relative_attention_num_buckets": 17, "feed_forward_proj": "gated-silu"}),
    ("whisper", WHISPER),
    ("whisper", {**WHISPER, "encoder_layers": 3, "decoder_layers": 1, "tie_word_embeddings": False}),
]  # fmt: skip


def count(kind, fields):
    config = transformers.AutoConfig.for_model(kind, **fields)
    head = HEADS.get(kind, "CausalLM")
    with torch.device("meta"):
        model = getattr(transformers, f"AutoModelFor{head}" if head else "AutoModel").from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def count_seeing(kind, fields):
    if kind in HEADS:
        return count(kind, fields)
    config = transformers.AutoConfig.for_model(kind, **fields)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def count_published(kind, fields):
    config = transformers.AutoConfig.for_model(kind, **fields)
    with torch.device("meta"):
        model = getattr(transformers, fields["architectures"][0])(config)
    return sum(parameter.numel() for parameter in model.parameters())


def count_with_head(head, kind, fields):
    config = transformers.AutoConfig.for_model(kind, **fields)
    with torch.device("meta"):
        model = getattr(transformers, f"AutoModelFor{head}" if head else "AutoModel").from_config(config)
    return type(model).__name__, sum(parameter.numel() for parameter in model.parameters())


def count_diffusers(kind, fields):
    import diffusers

    with torch.device("meta"):
        model = getattr(diffusers, kind)(**fields)
    return sum(parameter.numel() for parameter in model.parameters())


def main():
    kinds = [(count, "model_type", CONFIGS + TODAY), (count_seeing, "model_type", SEEING), (count_published, "model_type", PUBLISHED + TOPS), (count_diffusers, "_class_name", DIFFUSERS + UNETS)]
    with open(sys.argv[1], "w") as out:
        for counts, key, configs in kinds:
            for kind, fields in configs:
                try:
                    numbers = counts(kind, dict(fields))
                except Exception as error:
                    print(kind, fields, repr(error)[:200], file=sys.stderr)
                    continue
                out.write(json.dumps({"config": {key: kind, **fields}, "n_params": numbers}) + "\n")
        for head, kind, fields in OTHERS:
            # A configuration keeps what it is given, and adds to it.
            name, numbers = count_with_head(head, kind, json.loads(json.dumps(fields)))
            config = {"model_type": kind, "architectures": [name], **fields}
            out.write(json.dumps({"config": config, "n_params": numbers}) + "\n")


if __name__ == "__main__":
    main()
