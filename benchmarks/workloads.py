"""The models that are timed: real architectures, random weights, fixed seeds."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    ResNetConfig,
    ResNetForImageClassification,
)

Workload = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Pick(nn.Module):
    """Return one attribute of a Hugging Face output, so that every peer returns a tensor."""

    def __init__(self, model: nn.Module, attribute: str, **fixed: Any) -> None:
        super().__init__()
        self.model, self.attribute, self.fixed = model, attribute, fixed
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self.model(x, **self.fixed), self.attribute)
        return result


def resnet18() -> Workload:
    """ResNet-18, f32, one image of 3x224x224."""
    torch.manual_seed(0)
    config = ResNetConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic", num_labels=1000
    )
    return Pick(ResNetForImageClassification(config).eval(), "logits"), (
        torch.randn(1, 3, 224, 224),
    )


def bert() -> Workload:
    """BERT-like encoder: 4 layers, width 512, 128 tokens."""
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048
    )
    return Pick(BertModel(config).eval(), "last_hidden_state"), (torch.randint(0, 30000, (1, 128)),)


def gpt2() -> Workload:
    """GPT-2-like decoder: 6 layers, width 512, 128 tokens, full vocabulary."""
    torch.manual_seed(0)
    config = GPT2Config(n_embd=512, n_layer=6, n_head=8)
    model = Pick(GPT2LMHeadModel(config).eval(), "logits", use_cache=False)
    return model, (torch.randint(0, 50000, (1, 128)),)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "resnet18": resnet18,
    "bert": bert,
    "gpt2": gpt2,
}
