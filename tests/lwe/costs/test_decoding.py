import math

import numpy as np
import pytest

from lwe.costs.decoding import _babai


@pytest.mark.parametrize("share", [1e-6, 0.1, 0.9])
def test_in_three_dimensions_planes_contain_a_share_of_a_sphere_as_large_as_their_distance(share):
    # Archimedes: a coordinate of a uniform point of the sphere is uniform; errors of deviation 5 have length 5 sqrt(3)
    apart = math.log(2 * share * 5 * math.sqrt(3))
    assert _babai(np.full(3, apart), math.log(5)) == pytest.approx(3 * math.log2(share))
