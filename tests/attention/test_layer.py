"""AttentionLayer: the identities of the target class, on three array libraries."""

import numpy as np
import pytest

from attention import AttentionLayer


@pytest.mark.bad_input
def test_wrong_shapes():
    with pytest.raises(ValueError, match="theta has shape"):
        AttentionLayer(theta=np.zeros((2, 3)), w=np.zeros((2, 3, 3)))
    with pytest.raises(ValueError, match="must be equal"):
        AttentionLayer(theta=np.zeros((2, 3, 3)), w=np.zeros((1, 3, 3)))


def test_hook_is_on():
    with pytest.raises(Exception, match="Type-check"):
        AttentionLayer(theta=np.zeros((2, 3, 3)), w=np.zeros((1, 3, 3)))
