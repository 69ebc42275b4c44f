"""Transformers with a vocabulary: one for software Vulkan, one that a GPU is worth having for."""

import torch
from torch import nn

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]


def build(width: int = 64, layers: int = 2, words: int = 5000, tokens: int = 16) -> Model:
    """The model and an example batch of one sequence."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(words, width), nn.TransformerEncoder(layer, layers), nn.Linear(width, words)
    )
    return model.eval(), (torch.randint(0, words, (1, tokens)),)


def large() -> Model:
    """Width 512, 6 layers, 30,000 words, 128 tokens: 197 MB of weights."""
    return build(512, 6, 30000, 128)


if __name__ == "__main__":
    torch.onnx.export(*build(), "model.onnx", dynamo=True)
