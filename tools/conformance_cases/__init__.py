"""What a target and its devices must do, as cases of `lemurc conformance`; see case.py.

A file is a group of cases: `EXPRESSIONS`, functions whose results must be eager's, and
`SCENARIOS`, which do anything else. GROUPS is the order of the report.
"""

GROUPS = (
    "code",
    "elementwise",
    "integers",
    "products",
    "reductions",
    "shapes",
    "results",
    "weights",
    "state",
    "calls",
    "refusals",
    "mixed",
)
