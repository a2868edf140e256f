"""Models of the transformers library, built from tiny configurations: nothing is downloaded, weights are random."""

import torch
import transformers

from support.models import Case, images, tokens

transformers.utils.logging.set_verbosity_error()

VOCABULARY, LENGTH = 64, 8
TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
DECODER = TOKENS | {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
PATCHES = {"image_size": 16, "patch_size": 8}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
WHISPER = {
    "num_mel_bins": 8,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_source_positions": LENGTH,
    "max_target_positions": 16,
    "decoder_start_token_id": 1,
}


def ids(batch, length=LENGTH):
    return torch.randint(3, VOCABULARY, (batch, length))


def two_sequences(batch):
    return (), {"input_ids": ids(batch), "decoder_input_ids": ids(batch, LENGTH - 2)}


def speech(batch):
    return (), {"input_features": torch.randn(batch, 8, 2 * LENGTH), "decoder_input_ids": ids(batch, LENGTH - 2)}


def text_and_image(batch):
    return (), {"input_ids": ids(batch), "pixel_values": torch.randn(batch, 3, 16, 16)}


def made(name: str, **options):
    """A builder of the model class `name`, configured by its own configuration class."""

    def build():
        kind = getattr(transformers, name)
        return kind(kind.config_class(**options))

    return build


def clip():
    text = TOWER | TOKENS | {"max_position_embeddings": 16}
    return made("CLIPModel", text_config=text, vision_config=TOWER | PATCHES, projection_dim=16)()


# With grouped-query attention, whose default form is written with other operators when it is traced.
GROUPED = [
    Case("llama", made("LlamaForCausalLM", **DECODER), tokens(VOCABULARY, LENGTH)),
    Case("mistral", made("MistralForCausalLM", **DECODER), tokens(VOCABULARY, LENGTH)),
    Case("qwen2", made("Qwen2ForCausalLM", **DECODER), tokens(VOCABULARY, LENGTH)),
    Case("mixtral", made("MixtralForCausalLM", **DECODER, num_local_experts=4), tokens(VOCABULARY, LENGTH)),
    Case("gemma", made("GemmaForCausalLM", **DECODER, head_dim=8), tokens(VOCABULARY, LENGTH)),
]
BERT = {"vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}
MAMBA = {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}
EQUAL = [
    Case("phi", made("PhiForCausalLM", **DECODER | {"num_key_value_heads": 4}), tokens(VOCABULARY, LENGTH)),
    Case("t5", made("T5ForConditionalGeneration", **TOKENS, **T5), two_sequences),
    Case("whisper", made("WhisperForConditionalGeneration", **TOKENS, **WHISPER), speech),
    Case("clip", clip, text_and_image),
    Case("distilbert", made("DistilBertForSequenceClassification", **BERT), tokens(VOCABULARY, LENGTH)),
    Case("vit", made("ViTForImageClassification", **TOWER, **PATCHES), images(16)),
    Case("mamba", made("MambaForCausalLM", **TOKENS, **MAMBA), tokens(VOCABULARY, LENGTH)),
]
