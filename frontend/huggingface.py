"""A Hugging Face folder: config.json names the class, *.safetensors hold the weights.

Code that a folder brings along is never run, and no pickle is opened: a folder is data.
"""

import inspect
from pathlib import Path
from typing import Any

import torch

from lemurc.errors import UnsupportedModelError, UsageError

_TOKENS = 16
_SMALL = 8


def load_folder(folder: Path) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The model in eval mode without a cache, and keyword arguments for one call."""
    try:
        import transformers
    except ImportError as error:
        raise UsageError(
            "a Hugging Face folder needs the package transformers",
            code="transformers-missing",
            hint="pip install transformers",
        ) from error
    if not list(folder.glob("*.safetensors")):
        raise UsageError(
            f"{str(folder)!r} has no *.safetensors file",
            code="weights-missing",
            hint="save the model again with model.save_pretrained(folder)",
        )
    try:
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except (ValueError, OSError) as error:
        raise UnsupportedModelError(
            f"config.json of {str(folder)!r} names no architecture of transformers "
            f"{transformers.__version__}",
            code="remote-code",
            hint="lemurc runs no code that a folder brings along: build the model yourself "
            "and use --model file.py:build",
        ) from error
    named = (getattr(config, "architectures", None) or [""])[0]
    model_class = getattr(transformers, named, transformers.AutoModel)
    options: dict[str, Any] = {"local_files_only": True, "use_safetensors": True}
    if model_class is transformers.AutoModel:
        options["trust_remote_code"] = False
    model = model_class.from_pretrained(folder, config=config, **options).eval()
    model.config.use_cache = False
    if hasattr(model, "set_experts_implementation"):
        _static_experts(model)
    assert isinstance(model, torch.nn.Module)
    return model, example_inputs(model)


def _static_experts(model: Any) -> None:
    """Mixture-of-experts models: the form whose sizes do not depend on the routing."""
    try:
        model.set_experts_implementation("batched_mm")
    except (ValueError, AttributeError):
        return


def example_inputs(model: Any) -> dict[str, torch.Tensor]:
    """One small call of a text, vision or speech model, by what its forward takes."""
    config = model.config
    accepted = inspect.signature(model.forward).parameters
    random = torch.Generator().manual_seed(0)
    inputs: dict[str, torch.Tensor] = {}
    if "pixel_values" in accepted:
        inputs["pixel_values"] = torch.randn(_image_size(config), generator=random)
    if "input_features" in accepted:
        frames = 2 * getattr(config, "max_source_positions", 1500)
        bands = getattr(config, "num_mel_bins", 80)
        inputs["input_features"] = torch.randn(1, bands, frames, generator=random)
    elif "input_values" in accepted:
        inputs["input_values"] = torch.randn(1, 16000, generator=random)
    if "input_ids" in accepted:
        inputs["input_ids"] = torch.randint(0, _SMALL, (1, _TOKENS), generator=random)
        if "attention_mask" in accepted:
            inputs["attention_mask"] = torch.ones(1, _TOKENS, dtype=torch.int64)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted:
        inputs["decoder_input_ids"] = torch.randint(0, _SMALL, (1, _TOKENS), generator=random)
    if not inputs:
        raise UsageError(
            f"lemurc knows no example call for {type(model).__name__}",
            code="example-missing",
            hint="give the inputs by name: --input name=1x16xi64",
        )
    return inputs


def _image_size(config: Any) -> tuple[int, int, int, int]:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return 1, getattr(vision, "num_channels", 3), height, width
