"""Faults in the library that claims of several groups must detect."""

from paper_checks.faults import Fault, given

HALF_LOGITS = Fault(
    "attention.layer:attention_pattern", given(lambda logits: logits / 2), "the softmax of half the logits"
)
NEGATED_LOGITS = Fault(
    "attention.layer:attention_pattern", given(lambda logits: -logits), "the softmax of the negated logits"
)
