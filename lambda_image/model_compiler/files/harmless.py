"""The keys of a model's JSON files that change no vector, with the reasons.

Each key of a file is read, is in the file's list here, or is refused by name (`ConfigFile.done`).
"""

from collections.abc import Mapping
from types import MappingProxyType

NONE: Mapping[str, str] = MappingProxyType({})
#: By file: the keys of each reason. `graph/architectures/` has those of one family only.
REASONS: Mapping[str, Mapping[str, str]] = {
    "config.json": {
        # https://github.com/huggingface/transformers/blob/v4.45.0/src/transformers/configuration_utils.py
        "settings of text generation, which transformers 4 wrote for every model": """
            bad_words_ids begin_suppress_tokens decoder_start_token_id diversity_penalty do_sample
            early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty
            forced_bos_token_id forced_eos_token_id length_penalty max_length min_length
            no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_scores
            prefix remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens
            temperature top_k top_p typical_p use_cache""",
        "provenance": """
            _attn_implementation_autoset _commit_hash _name_or_path architectures output_past
            transformers_version""",
        "read with the tokenizer": "tokenizer_class",
        "dropout, initial weights and other settings of training": """
            attention_dropout attention_probs_dropout_prob classifier_dropout gradient_checkpointing
            hidden_dropout_prob initializer_factor initializer_range""",
        "heads and tasks, which an embedding model does not have": """
            _num_labels add_pooling_layer cross_attention_hidden_size finetuning_task id2label
            label2id num_labels problem_type task_specific_params tf_legacy_loss
            tie_encoder_decoder tie_word_embeddings""",
        "ids of tokens, which the tokenizer has": """
            bos_token_id cls_token_id eos_token_id mask_token_id pad_token_id sep_token_id
            unk_token_id""",
        "what a program returns, and how it computes the same": """
            chunk_size_feed_forward output_attentions output_hidden_states return_dict torchscript
            use_bfloat16""",
        "the type of the stored weights, which their file states too": "dtype torch_dtype",
    },
    "model2vec": {
        "how the table was made": """
            apply_pca apply_zipf architectures embedding_dtype hidden_dim language pooling
            seq_length sif_coefficient tokenizer_name vocabulary_quantization"""
    },
    "sentence_bert_config.json": {"a layout that computes the same": "unpad_inputs"},
    "config_sentence_transformers.json": {
        "versions of programs": "__version__ requirements",
        "of vectors of length 1 all similarities have one order": "similarity_fn_name",
    },
    "tokenizer_config.json": {
        "provenance, and names of files on the author's machine": """
            _commit_hash added_tokens_file backend files_loaded full_tokenizer_file is_local
            local_files_only merges_file name_or_path special_tokens_map_file tokenizer_file
            transformers_version use_fast vocab_file""",
        "what the class is part of": "processor_class",
        "padding, which the mask hides": "pad_to_multiple_of pad_token_type_id padding_side",
        "defaults of arguments that are always given": """
            max_length stride truncation_strategy""",
        "which of its outputs the model takes, which the graph knows": "model_input_names",
        "ids to text": """
            clean_up_tokenization_spaces errors spaces_between_special_tokens trim_offsets
            clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output""",
        "chats": """
            chat_control_tokens chat_template response_schema response_template
            use_default_system_prompt""",
        "tokenizers without a tokenizer.json": """
            do_basic_tokenize extra_ids keep_accents legacy never_split remove_space
            sp_model_kwargs split_by_punct vocab_type wordpieces_prefix""",
        "transformers 5 takes the post-processor of tokenizer.json": "add_bos_token add_eos_token",
    },
    "adapter_config.json": {
        "which model it is for, which is found before": "base_model_name_or_path revision",
        "which tensors it changes, which their file says": "bias modules_to_save",
        "peft ignores it for layers that keep a weight as PyTorch's Linear does": "fan_in_fan_out",
        "dropout, initial values and other settings of training": """
            corda_config ensure_weight_tying eva_config inference_mode lora_dropout lora_ga_config
            megatron_core qalora_group_size task_type""",
        "provenance": "auto_mapping peft_version",
    },
    "modules.json": {"sentence-transformers counts the modules itself": "idx"},
}


def harmless(file: str, more: Mapping[str, str] = NONE) -> frozenset[str]:
    """Return the harmless keys of a file, and of more reasons: those of a family."""
    groups = (*REASONS.get(file, NONE).values(), *more.values())
    return frozenset(key for keys in groups for key in keys.split())
