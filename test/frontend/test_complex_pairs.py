"""Complex arithmetic and Fourier transforms as pairs of reals, against eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as torch_pytree

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.complex_pairs import expand_complex
from lemurc.frontend.decompositions import decomposition_table
from lemurc.frontend.torch_export import EntryPoint, decompose, export


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def _z(*shape: int) -> torch.Tensor:
    return torch.complex(torch.randn(*shape), torch.randn(*shape))


def _complex_operators(program: Any) -> set[str]:
    return {
        str(node.target)
        for node in program.graph.nodes
        if node.op == "call_function"
        for value in torch_pytree.tree_leaves(node.meta["val"])
        if isinstance(value, torch.Tensor) and value.is_complex()
    }


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "arithmetic": (
        lambda a, b: (a * b, a + b, a - b, a / b, -a, a * 2.0, a * (1 + 2j), 2.0 - a, a**3),
        (_z(3, 4), _z(3, 4)),
    ),
    "products": (
        lambda a, b: (a.conj() @ b.mT, torch.bmm(a[None], b.mT[None]), torch.vdot(a[0], b[0])),
        (_z(3, 4), _z(3, 4)),
    ),
    "parts": (lambda a: (a.real, a.imag, a.abs(), a.angle(), a.conj()), (_z(3, 4),)),
    "functions": (
        lambda a: (a.exp(), a.log(), a.sqrt(), a.sin(), a.cosh(), a.tanh(), a.sigmoid(), a**0.5),
        (_z(3, 4),),
    ),
    "reductions": (lambda a: (a.sum(), a.mean(0), a.prod(), a.cumsum(0), a.norm()), (_z(3, 5),)),
    "shapes": (
        lambda a: (a.mH, torch.cat([a, a]), a.flip(0), a.roll(1, 0), a.tril(), a[:, [2, 0]]),
        (_z(3, 4),),
    ),
    "made of reals": (
        lambda x: (torch.complex(x, x), torch.polar(x.abs(), x), x + 1j * x, x.to(torch.cfloat)),
        (torch.randn(3, 4),),
    ),
    "rotation": (
        lambda x, f: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * f),
        (torch.randn(2, 5, 8), _z(5, 4)),
    ),
    "spectrum": (
        lambda x: (
            torch.fft.rfft(x, dim=1).abs() ** 2,
            torch.fft.irfft(torch.fft.rfft(x, dim=1), n=12, dim=1),
            torch.fft.fftn(x),
            torch.fft.rfft2(x, norm="ortho"),
        ),
        (torch.randn(2, 12, 3),),
    ),
    "short time": (
        lambda x: torch.istft(
            torch.stft(x, 64, 16, window=torch.hann_window(64), return_complex=True),
            64,
            16,
            window=torch.hann_window(64),
            length=400,
        ),
        (torch.randn(1, 400),),
    ),
    "short time of one signal": (
        lambda x: torch.view_as_real(torch.stft(x, 8, return_complex=True)),
        (torch.randn(32),),
    ),
    "double": (lambda a: (a * a, torch.fft.ifft(a)), (_z(3, 4).to(torch.complex128),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_eager(name: str) -> None:
    torch.manual_seed(0)
    function, args = FUNCTIONS[name]
    program = decompose(export(EntryPoint(Function(function), args)))
    assert _complex_operators(program) <= {"aten.view_as_complex.default"}
    got, expected = (
        torch_pytree.tree_leaves(result) for result in (program.module()(*args), function(*args))
    )
    for mine, eager in zip(got, expected, strict=True):
        scale = float(eager.abs().max())
        torch.testing.assert_close(mine, eager.resolve_conj(), rtol=0, atol=5e-6 * scale)


@pytest.mark.parametrize("size", [1, 7, 64, 257, 400, 1000, 4096])
def test_transforms_of_any_length(size: int) -> None:
    """As exact as eager's own to a small factor, in f32 against f64."""
    from torch._subclasses.complex_tensor import ComplexTensor

    from lemurc.frontend.operators.fourier import complex_to_complex, complex_to_real

    z = _z(2, size)
    wide = torch.fft.fft(z.to(torch.complex128))
    mine = complex_to_complex(ComplexTensor(z.real, z.imag), [1], 0, True).as_interleaved()
    error = float((mine - wide).abs().max() / wide.abs().max())
    assert error < 1e-7 * max(8.0, size**0.5)
    half = torch.fft.rfft(z.real)
    back = complex_to_real(ComplexTensor(half.real, half.imag), [1], 2, size)
    torch.testing.assert_close(back, z.real, rtol=0, atol=2e-5)


def test_programs_of_reals_stay_as_they_are() -> None:
    program = export(EntryPoint(Function(torch.sin), (torch.ones(2),)))
    assert not expand_complex(program.run_decompositions(decomposition_table(program)))


def test_an_operator_without_pairs_is_named() -> None:
    model = Function(lambda z: torch.linalg.svdvals(torch.linalg.qr(z)[0]))
    with pytest.raises(UnsupportedModelError) as caught:
        decompose(export(EntryPoint(model, (_z(3, 3),))))
    assert "linalg_qr" in str(caught.value) and caught.value.hint
