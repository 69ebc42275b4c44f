"""The kinds a composite may have: what passes and targets know the meaning of."""

KINDS = frozenset(
    {
        "attention",
        "batch_norm",
        "conv",
        "embedding",
        "fused",
        "gelu",
        "group_norm",
        "layer_norm",
        "linear",
        "matmul",
        "pool",
        "rms_norm",
        "rope",
        "silu",
        "softmax",
    }
)
