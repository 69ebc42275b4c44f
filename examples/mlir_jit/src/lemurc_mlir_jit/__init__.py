"""A sample of a target that lemurc does not know: MLIR's execution engine as an accelerator."""
