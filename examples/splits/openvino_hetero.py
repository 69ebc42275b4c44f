"""What OpenVINO's HETERO device does with model.onnx, for each list of devices given."""

import sys
from collections import Counter

import openvino

core = openvino.Core()
print("devices:", ", ".join(core.available_devices))
model = core.read_model("model.onnx")
for devices in sys.argv[1:]:
    try:
        operations = Counter(core.query_model(model, devices).values())
        core.compile_model(model, devices)
        print(f"{devices}: {dict(operations)}")
    except RuntimeError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        print(f"{devices}: {lines[-1].strip()}")
