"""The models of `./dev sweep models`: data alone. models.py builds them.

A family of transformers is named as its configurations name it ("bert"); its small configuration is made of SMALL, where the family
has such a key, in the configurations inside of it too. What it needs beyond that stands beside its inputs.
"""

# Keys of configurations, and the small numbers that stand for them.
SMALL = {
    64: "hidden_size d_model n_embd dim embed_dim emb_dim embedding_size max_position_embeddings n_positions max_seq_len image_size",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers num_blocks "
       "num_key_value_heads num_experts_per_tok moe_k top_k_experts",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_experts num_local_experts "
       "n_routed_experts moe_num_experts",
    128: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner d_inner ffn_hidden_size hidden_dim "
         "moe_intermediate_size shared_expert_intermediate_size",
    16: "head_dim d_kv attention_head_size patch_size qk_rope_head_dim qk_nope_head_dim v_head_dim",
    32: "q_lora_rank kv_lora_rank projection_dim",
    8: "state_size ssm_state_size mamba_d_state",
    0: "pad_token_id bos_token_id eos_token_id",
    1: "n_group topk_group first_k_dense_replace",
    100: "vocab_size",
    80: "num_mel_bins",
}

SPEECH = dict(conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
PYRAMID = dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])
WINDOWS = dict(embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, patch_size=4)
STAGES = dict(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1])
BACKBONE = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, num_queries=10,
                backbone_config={"model_type": "resnet", "out_features": ["stage4"], **STAGES})
LATENT = dict(num_key_value_heads=4)

# Of transformers: {kind of inputs: families}. `name` alone, or (name, what its configuration needs).
FAMILIES = {
    "tokens": [*(
        # encoders
        "albert bert bert-generation camembert convbert data2vec-text deberta deberta-v2 distilbert dpr electra ernie esm eurobert fnet "
        "gte ibert jina_embeddings_v3 layoutlm longformer megatron-bert mobilebert modernbert mpnet mra nomic_bert nystromformer "
        "rembert roberta roberta-prelayernorm roformer splinter squeezebert tapas visual_bert xlm xlm-roberta xlm-roberta-xl xlnet yoso "
        "flaubert clip_text_model "
        # decoders
        "apertus arcee biogpt bitnet bloom cohere cohere2 ctrl cwm diffllama doge ernie4_5 exaone4 falcon gemma gemma2 gemma3_text glm "
        "glm4 gpt2 gpt_bigcode gpt_neox gpt_neox_japanese granite helium hunyuan_v1_dense hyperclovax imagegpt jais2 llama ministral "
        "mistral modernbert-decoder mpt nanochat nemotron olmo olmo2 olmo3 openai-gpt opt persimmon phi phi3 qwen2 qwen3 seed_oss smollm3 "
        "stablelm starcoder2 vaultgemma xglm "
        # mixtures of experts
        "afmoe ernie4_5_moe flex_olmo glm4_moe gpt_oss granitemoe granitemoeshared hunyuan_v1_moe llama4_text minimax_m2 mixtral "
        "olmoe phimoe qwen2_moe qwen3_moe solar_open "
        # states instead of attention, and both
        "bamba falcon_h1 falcon_mamba granitemoehybrid jamba lfm2 mamba minimax olmo_hybrid qwen3_next recurrent_gemma rwkv xlstm "
        # of every kind: whatever else builds from small numbers alone
        "aria_text bailing_hybrid beam big_bird cohere2_moe cpmant deepseek_v4 embedding_gemma2 embedding_gemma2_text evolla "
        "exaone_moe fastspeech2_conformer fastspeech2_conformer_with_hifigan flint gemma4_unified gemma4_unified_text gpt-sw3 "
        "granite_docling_text granite_swa granitemoe_swa higgs_audio_v2 hrm_text hy_v3 hy_v4 inkling2_text inkling_text internlm3 "
        "iquestcoder jetmoe kimi_linear kolibri1 kosmos-2.5 laguna lfm3 llama4 markuplm mellum mimo_v2_flash minimax_m3_vl "
        "minimax_m3_vl_text ministral3 mllama molmo2_text muse_glimmer_text muse_spark_text nemotron_h neomme "
        "openai_privacy_filter phi4_multimodal qwen3_5_moe_text qwen3_5_text qwen3_vl qwen3_vl_moe qwen3_vl_moe_text "
        "qwen3_vl_text qwen4_exp_text roc_bert sam3_lite_text_text_model tipsv2 tipsv2_text_model ultrabert unlimited_ocr").split(),
        ("mamba2", dict(num_heads=8, head_dim=16, n_groups=1, expand=2)),
        ("deepseek_v2", LATENT), ("deepseek_v3", LATENT), ("minicpm3", LATENT),
        ("gpt_neo", dict(attention_types=[[["global", "local"], 1]])),
        ("gptj", dict(rotary_dim=8)), ("codegen", dict(rotary_dim=8)),
        ("canine", dict(local_transformer_stride=4, downsampling_rate=4)),
        ("funnel", dict(block_sizes=[1, 1], d_model=64, d_head=16)),
        ("reformer", dict(axial_pos_embds=False, attn_layers=["local", "local"], local_attn_chunk_length=4)),
    ],
    "texts": [*"bart blenderbot blenderbot-small led longt5 m2m_100 marian mbart mt5 mvp nllb-moe pegasus pegasus_x plbart prophetnet "
               "switch_transformers t5 t5gemma umt5".split(),
              ("fsmt", dict(src_vocab_size=100, tgt_vocab_size=100)),
              ("bigbird_pegasus", dict(attention_type="original_full"))],
    "pixels": [*"aimv2_vision_model beit chinese_clip_vision_model clip_vision_model data2vec-vision deit dinov2 dinov2_with_registers "
                "dinov3_vit dpt idefics3_vision ijepa internvl_vision mlcd_vision_model mobilenet_v1 mobilenet_v2 pixio pixtral radio sam3_vit_model "
                "sam_vision_model siglip_vision_model swiftformer textnet vit vit_msn vitdet dinov3_convnext granite_docling_vision hgnet_v2 "
                "mlcd pp_ocrv5_server_rec pp_ocrv6_small_rec pp_ocrv6_tiny_rec qianfan_ocr_vision sam2_vision_model "
                "sam_hq_vision_model sapiens2 smolvlm_vision tipsv2_vision_model".split(),
               ("bit", dict(STAGES, num_groups=8)), ("yolos", dict(image_size=[64, 64], num_detection_tokens=5)), ("resnet", STAGES), ("regnet", dict(STAGES, groups_width=8)),
               ("convnext", dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], patch_size=4)),
               ("convnextv2", dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], patch_size=4)),
               ("donut-swin", WINDOWS), ("maskformer-swin", WINDOWS), ("swin", WINDOWS), ("swinv2", WINDOWS),
               ("swin2sr", dict(embed_dim=16, depths=[2], num_heads=[2], window_size=4, patch_size=1)),
               ("efficientnet", dict(width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320)),
               ("focalnet", dict(embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32], focal_levels=[2, 2], focal_windows=[3, 3], patch_size=4)),
               ("glpn", dict(PYRAMID, decoder_hidden_size=16)), ("segformer", dict(PYRAMID, decoder_hidden_size=32)),
               ("pvt", dict(PYRAMID, image_size=64)), ("pvt_v2", PYRAMID),
               ("levit", dict(hidden_sizes=[16, 32, 48], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8])),
               ("mobilevit", dict(hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 16, 24, 64], patch_size=2)),
               ("mobilevitv2", dict(width_multiplier=0.25, patch_size=2)),
               ("poolformer", dict(PYRAMID, patch_size=7)),
               ("detr", BACKBONE), ("conditional_detr", BACKBONE), ("table-transformer", BACKBONE),
               ("dab-detr", BACKBONE), ("deformable_detr", BACKBONE)],
    "pictures and texts": ["align", "altclip", "blip", "bridgetower", "chinese_clip", "clip", "clipseg", "flava", "git", "metaclip_2",
                           "siglip", "siglip2", "vilt", "xclip", "aimv2", "groupvit", "owlv2", "owlvit"],
    "sound": [("wav2vec2", SPEECH), ("hubert", SPEECH), ("wavlm", SPEECH), ("unispeech", SPEECH), ("unispeech-sat", SPEECH),
              ("data2vec-audio", SPEECH), ("wav2vec2-conformer", SPEECH), ("sew", dict(SPEECH, conv_dim=(32,) * 13)),
              ("sew-d", dict(SPEECH, conv_dim=(32,) * 13))],
    "channel of sound": [("encodec", dict(hidden_size=32, num_filters=4, codebook_size=32, num_lstm_layers=1)),
                         "mimi_encoder", "pe_audio_encoder", "pocket_tts_audio_tokenizer_encoder"],
    "mel": [("audio-spectrogram-transformer", dict(max_length=100, num_mel_bins=80))],
    "features": ["voxtral_realtime_encoder", "glmasr_encoder"],
    "features and texts": [("whisper", dict(max_source_positions=50, max_target_positions=32, decoder_start_token_id=1))],
    "sound and texts": [("moonshine", dict(max_position_embeddings=194))],
    "frames": [("videomae", dict(num_frames=8)), ("vivit", dict(num_frames=8, tubelet_size=[2, 16, 16])), "timesformer"],
}

# Of torchvision: (model, side of the picture). Segmentation and detection are built with a small backbone where they take one.
PICTURES = {
    64: "alexnet densenet121 efficientnet_b0 efficientnet_v2_s googlenet mnasnet0_5 mobilenet_v2 mobilenet_v3_large "
        "mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18 resnet50 resnext50_32x4d wide_resnet50_2 shufflenet_v2_x0_5 "
        "squeezenet1_0 squeezenet1_1 vgg11 vgg11_bn convnext_tiny swin_t swin_v2_t swin_s vit_b_16 vit_b_32 maxvit_t "
        "deeplabv3_mobilenet_v3_large deeplabv3_resnet50 fcn_resnet50 lraspp_mobilenet_v3_large",
    96: "inception_v3",
}

# Of timm: {side of the picture: models}, a small one of each module and of some modules two. `name` alone, or (name, what its constructor
# needs). Models of a fixed size are built for that side.
FEW = dict(embed_dim=64, depth=2, num_heads=4)
TIMM = {
    64: [*("test_byobnet lambda_resnet26t eca_botnext26ts_256 cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32 test_convnext "
           "cpubone_nano csatv2 cs3darknet_focus_s cspnext_tiny davit_tiny deit_tiny_distilled_patch16_224 densenet121 dla46x_c dpn48b "
           "edgenext_xx_small efficientformerv2_s0 test_efficientnet test_efficientnet_gn efficientvim_m1 efficientvit_b0 "
           "efficientvit_m0 eva02_tiny_patch14_224 vit_tiny_patch16_dinov3_qkvb fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny "
           "ghostnet_050 ghostnetv3_050 hardcorenas_b hgnetv2_b0 hiera_tiny_224 sam2_hiera_tiny hrnet_w18_small iformer_t "
           "inception_next_atto lcnetv2_small levit_128s lowformer_b0 test_mambaout test_coatnet test_maxvit poolformerv2_s12 "
           "gmlp_ti16_224 resmlp_12_224 lcnet_035 mobilenetv5_base mobilevit_xxs mobilevitv2_050 mvitv2_tiny nasnetalarge nest_tiny "
           "nextvit_small test_nfnet pit_ti_224 pnasnet5large pvt_v2_b0 rdnet_tiny regnetx_002 repghostnet_050 repvit_m1 res2next50 "
           "resnest14d test_resnet resnetv2_18 rexnet_100 selecsls42 sequencer2d_s legacy_seresnet18 shvit_s1 skresnet18 starnet_s050 "
           "swiftformer_xs swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 tiny_vit_5m_224 tnt_s_patch16_224 "
           "tresnet_m twins_svt_small visformer_tiny test_vit vit_tiny_r_s16_p8_224 test_vit_relpos vitamin_small_224 volo_d1_224 "
           "ese_vovnet19b_slim_dw legacy_xception xception41p xcit_nano_12_p16_224").split(),
         ("beit_base_patch16_224", FEW), ("naflexvit_base_patch16_gap", FEW), ("qwen3_vit_88m", FEW), ("vgg11", dict(mlp_ratio=1 / 64)),
         ("samvit_base_patch16_224", dict(FEW, global_attn_indexes=(1,), window_size=3))],
    56: [("deepseek_vit_412m", FEW)],
    96: ["inception_resnet_v2", "inception_v3", "inception_v4", ("gemma4_vit_167m", FEW)],
    120: ["crossvit_tiny_240"],
    224: ["efficientformer_l1"],
    256: ["halonet_h1"],
}

# What CI asks, in less than a minute: one of each kind.
SAMPLE = ("diffusion UNet", "selective scan", "numbers beside tensors", "nn.Transformer", "mobilenet_v3_small", "bert", "deberta-v2", "gpt2",
          "llama", "mixtral", "mamba", "t5", "vit", "swin", "clip", "wav2vec2")

# (model, column) of the table: what is known to differ or to fail, and why.
KNOWN = {("vilt", "traced"): "it draws the patches that it looks at, and each run draws others"}
