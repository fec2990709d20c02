"""The logs of testdata/messages/answers whose first step is an option of the program that ran: tables of `make_messages.py`.

The paths are those of each program's own source; the amounts are made up.
"""

from answers_of_logs import ANSWERS

MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.64 GiB of which 741.75 MiB is free. "
    "Including non-PyTorch memory, this process has 22.91 GiB memory in use. Of the allocated memory 22.29 GiB is allocated by PyTorch, and 95.97 "
    "MiB is reserved by PyTorch but unallocated."
)

# Name, file, function, line of source, first step, and a part of its setting.
FRAMES = [
    ("wan_wrapper", "/srv/ComfyUI/custom_nodes/ComfyUI-WanVideoWrapper/nodes_sampler.py", "process", "noise = transformer(z)", "offload", "blocks_to_swap"),
    ("comfyui_decode", "/srv/ComfyUI/nodes.py", "decode", 'images = vae.decode(samples["samples"])', "tile-decode", "tile_size"),
    ("comfyui_sampler", "/srv/ComfyUI/comfy/samplers.py", "sample", "h = self.attn1(n)", "offload", "--lowvram"),
    ("forge_sampler", "/srv/webui-forge/backend/nn/unet.py", "forward", "h = module(h)", "offload", "GPU Weights"),
    ("sdnext_sampler", "/srv/sdnext/modules/processing_diffusers.py", "process_base", "output = pipe(**args)", "offload", "Model offload mode"),
    ("webui_decode", "/srv/stable-diffusion-webui/modules/processing.py", "decode_latent_batch", "x = decode_first_stage(model, batch)", "offload", "--medvram"),
    ("invokeai_decode", "/srv/invokeai/app/invocations/latents_to_image.py", "invoke", "image = vae.decode(latents)[0]", "tile-decode", "force_tiled_decode"),
    ("musubi_tuner", "/srv/musubi-tuner/src/musubi_tuner/wan_train_network.py", "call_dit", "pred = transformer(x)", "offload", "--blocks_to_swap"),
    ("sd_scripts", "/srv/sd-scripts/flux_train_network.py", "call_unet", "pred = unet(img=x)", "offload", "--blocks_to_swap"),
    ("sd_scripts_optimizer", "/srv/sd-scripts/train_util.py", "step", "exp_avg_sq = torch.zeros_like(p)", "smaller-optimizer", "--fused_backward_pass"),
    ("onetrainer", "/srv/OneTrainer/modules/trainer/GenericTrainer.py", "train", "data = setup.predict(batch)", "offload", "Layer Offload Fraction"),
    ("ai_toolkit", "/srv/ai-toolkit/jobs/process/BaseSDTrainProcess.py", "run", "loss = self.hook_train_loop(batch)", "offload", "low_vram: true"),
    ("diffusion_pipe", "/srv/diffusion-pipe/train.py", "main", "loss = engine.train_batch()", "offload", "blocks_to_swap"),
    ("simpletuner", "/srv/SimpleTuner/simpletuner/helpers/training/trainer.py", "train", "pred = self.model_predict(x)", "offload", "--base_model_precision"),
    ("wan2gp", "/srv/Wan2GP/wgp.py", "generate_video", "samples = wan_model.generate(x)", "offload", "--profile 4"),
    ("framepack", "/srv/FramePack/diffusers_helper/hunyuan.py", "vae_decode", "image = vae.decode(latents).sample", "offload", "Preserved Memory"),
    ("diffsynth", "/srv/DiffSynth-Studio/diffsynth/pipelines/wan_video.py", "model_fn", "x = block(x)", "offload", "--use_gradient_checkpointing_offload"),
    ("wan", "/srv/Wan2.1/wan/text2video.py", "generate", "noise_pred = self.model(latent)", "offload", "--offload_model True"),
    ("axolotl_load", "/srv/axolotl/src/axolotl/loaders/model.py", "load_model", "model = AutoModel.from_pretrained(path)", "less-weights", "load_in_4bit"),
    ("axolotl_step", "/srv/axolotl/src/axolotl/core/trainers/base.py", "compute_loss", "outputs = model(**inputs)", "shrink", "micro_batch_size"),
    ("llamafactory", "/srv/LLaMA-Factory/src/llamafactory/train/sft/trainer.py", "compute_loss", "outputs = model(**inputs)", "shrink", "cutoff_len"),
    ("llamafactory_logits", "/srv/LLaMA-Factory/src/llamafactory/train/sft/trainer.py", "compute_loss", "loss = F.cross_entropy(logits, labels)", "chunk-logits", "enable_liger_kernel"),
    ("ms_swift", "/srv/ms-swift/swift/trainers/trainers.py", "compute_loss", "outputs = model(**inputs)", "shrink", "--max_length"),
    ("torchtune", "/opt/lib/python3.11/site-packages/torchtune/modules/transformer.py", "forward", "h = layer(h)", "shrink", "enable_activation_checkpointing"),
    ("openrlhf", "/srv/OpenRLHF/openrlhf/trainer/ray/ppo_actor.py", "ppo_train", "status = self.training_step(x)", "shrink", "--train.micro_batch_size"),
    ("verl_actor", "/srv/verl/workers/actor/dp_actor.py", "update_policy", "out = self.actor_module(**micro)", "shrink", "ppo_max_token_len_per_gpu"),
    ("unsloth", "/opt/lib/python3.11/site-packages/unsloth/models/llama.py", "forward", "hidden = layer(hidden)", "shrink", "use_gradient_checkpointing"),
    ("trl", "/opt/lib/python3.11/site-packages/trl/trainer/dpo_trainer.py", "forward", "out = model(**batch)", "shrink", "per_device_train_batch_size"),
    ("textgen", "/srv/text-generation-webui/modules/exllamav2_hf.py", "__init__", "self.ex_cache = Cache(self.ex_model)", "shorter-context", "--ctx-size"),
    ("exllamav2", "/opt/lib/python3.11/site-packages/exllamav2/cache.py", "create_state_tensors", "k = torch.zeros(self.shape_wk)", "shorter-context", "max_seq_len"),
    ("whisperx", "/opt/lib/python3.11/site-packages/whisperx/alignment.py", "align", "emissions = model(waveform)", "shrink", "--batch_size"),
    ("whisper", "/opt/lib/python3.11/site-packages/whisper/transcribe.py", "decode", "result = model.decode(segment)", "smaller-model", "--model turbo"),
    ("applio", "/srv/Applio/rvc/train/train.py", "run", "y_hat = net_g(phone)", "shrink", "Cache Dataset in GPU"),
    ("nerfstudio", "/srv/nerfstudio/nerfstudio/data/datamanagers/full_images_datamanager.py", "next_train", 'data["image"] = data["image"].to(device)', "shrink", "cache-images cpu"),
    ("gsplat", "/srv/gsplat/examples/simple_trainer.py", "rasterize_splats", "out = rasterization(means)", "shrink", "--packed"),
    ("mmdetection", "/srv/detect/mmdet/structures/bbox/bbox_overlaps.py", "bbox_overlaps", "wh = fp16_clamp(rb - lt, min=0)", "shrink", "gpu_assign_thr"),
    ("gaussian_splatting", "/srv/gaussian-splatting/scene/cameras.py", "__init__", "self.original_image = image.to(self.data_device)", "shrink", "--data_device cpu"),
    ("sam2", "/srv/sam2/sam2_video_predictor.py", "init_state", "images = images.cuda()", "offload", "offload_video_to_cpu"),
    ("segment_anything", "/opt/lib/python3.11/site-packages/segment_anything/automatic_mask_generator.py", "_process_batch", "masks = predictor(points)", "shrink", "points_per_batch"),
    ("ultralytics", "/opt/lib/python3.11/site-packages/ultralytics/utils/tal.py", "get_box_metrics", "overlaps = self.iou_calculation(a, b)", "shrink", "batch=4"),
    ("nnunet", "/opt/lib/python3.11/site-packages/nnunetv2/training/nnUNetTrainer/nnUNetTrainer.py", "train_step", "output = self.network(data)", "shrink", "-gpu_memory_target"),
    ("monai", "/opt/lib/python3.11/site-packages/monai/networks/nets/swin_unetr.py", "forward", "hidden = self.swinViT(x)", "shrink", "sw_batch_size"),
    ("espnet", "/srv/espnet/espnet2/asr/espnet_model.py", "forward", "encoder_out = self.encode(speech)", "shrink", "--batch_bins"),
    ("nemo", "/srv/NeMo/nemo/collections/asr/models/rnnt_models.py", "training_step", "encoded = self.forward(signal)", "shrink", "max_duration"),
    ("megatron", "/srv/Megatron-LM/megatron/core/transformer/mlp.py", "forward", "x = self.linear_fc1(x)", "shrink", "--recompute-granularity"),
    ("deepspeed_optimizer", "/opt/lib/python3.11/site-packages/deepspeed/runtime/zero/stage_1_and_2.py", "initialize_optimizer_states", "self.optimizer.step()", "smaller-optimizer", "offload_optimizer"),
    ("qwen_vl", "/opt/lib/python3.11/site-packages/transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py", "forward", "attn_output = F.scaled_dot_product_attention(q, k, v)", "shrink", "max_pixels"),
    ("diffusers_decode", "/opt/lib/python3.11/site-packages/diffusers/pipelines/flux/pipeline_flux.py", "__call__", "image = self.vae.decode(latents)[0]", "tile-decode", "enable_tiling"),
]


def of_programs():
    """A traceback of each program, and texts without one."""
    for name, file, function, source, first_step, setting in FRAMES:
        text = f'Traceback (most recent call last):\n  File "{file}", line 61, in {function}\n    {source}\n{MESSAGE}\n'
        ANSWERS[f"program_{name}"] = (text, {"cause": "too-big", "first_step": first_step, "setting": setting})
    others = [
        ("copy_to_the_host", "host-memory", "less-host-memory", "blocks_to_swap", '[rank0]:   File "/srv/diffusion-pipe/utils/offloading.py", line 272, in prepare\n[rank0]:     weights_to_device(b, torch.device(\'cpu\'))\n[rank0]:   File "/srv/diffusion-pipe/utils/offloading.py", line 119, in weights_to_device\n[rank0]:     module.weight.data = module.weight.data.to(device, non_blocking=True)\n[rank0]: RuntimeError: CUDA error: out of memory'),
        ("refused_on_windows", "refused", "larger-page-file", "Virtual memory", 'Traceback (most recent call last):\n  File "D:\\work\\train.py", line 9, in main\n    y = model(x)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.99 GiB of which 12.40 GiB is free. Including non-PyTorch memory, this process has 9.10 GiB memory in use. Of the allocated memory 8.29 GiB is allocated by PyTorch, and 95.97 MiB is reserved by PyTorch but unallocated.'),
        ("report_of_a_decoder", "unknown", "tile-decode", "tile_size", "# ComfyUI Error Report\n- **Node ID:** 73\n- **Node Type:** VAEDecodeTiled\n- **Exception Type:** torch.OutOfMemoryError\n- **Exception Message:** Allocation on device "),
    ]
    for name, cause, first_step, setting, text in others:
        ANSWERS[f"program_{name}"] = (text + "\n", {"cause": cause, "first_step": first_step, "setting": setting})
