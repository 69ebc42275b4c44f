"""Winograd's convolution: which tiles a layer may be cut in.

    y = A' [(G g G') * (B' d B)] A        over tiles of m x m outputs, m 2 or 4

as cpu/kernels/winograd.h has it. F(2x2, 3x3) takes 4 multiplications per output, channel and
filter, F(4x4, 3x3) 2.25, a plain convolution 9.

The price is rounding. With u = 2^-24, C channels, all inputs at most D and the absolute weights
of a filter at most W in sum, each output of the kernel is within

    (C + 20) u kappa(m) D W,    kappa(2) = 16, kappa(4) = 175

of the exact one, where a plain sum of products has 9 C u D W. `kappa` is the square, for rows and
columns, of the largest sum over |A| |G| |B| that one weight goes through; interpolation at
0, 1, -1, 2, -2 instead of 0, 5/8, -5/8, 3/2, -3/2 would make it 860. Roundings are of either sign,
so what is seen grows with the root of C instead: on random data F(2x2) has 0.7 times the error of
a plain sum and F(4x4) twice, whatever C is.
"""

KAPPA = {2: 16.0, 4: 175.0}
UNIT_ROUNDOFF = 2.0**-24
BOUND = 5e-4
"""Of `expected_error`, 2 to 3 digits above what is measured: F(4x4) up to 2277 channels."""


def expected_error(m: int, channels: int) -> float:
    """The error bound in units of D W where roundings are of either sign."""
    return float((channels + 20) ** 0.5 * UNIT_ROUNDOFF * KAPPA[m])


def tile_size(channels: int, out_height: int, out_width: int) -> int:
    """2 or 4: the tile that takes the fewest multiplications of those within the bound.

    Tiles that reach over the edge are computed in full, so that small images may prefer 2.
    """

    def multiplications(m: int) -> int:
        return -(-out_height // m) * -(-out_width // m) * (m + 2) ** 2

    allowed = [m for m in KAPPA if expected_error(m, channels) <= BOUND]
    return min(allowed or [2], key=multiplications)
