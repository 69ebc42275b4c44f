"""What ONNX Runtime's execution providers do with model.onnx, for the list given."""

import sys
from collections import Counter

import onnxruntime

options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
session = onnxruntime.InferenceSession("model.onnx", options, providers=sys.argv[1:])
nodes: Counter[str] = Counter()
for part in session.get_provider_graph_assignment_info():
    nodes[part.ep_name] += len(part.get_nodes())
print(dict(nodes))
