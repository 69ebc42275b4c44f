"""The kinds of hardware lemurc compiles for, ours and those of installed packages."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetRow:
    """`default` are the architectures compiled for when only the target is named; "host" is
    that of this machine. `same_as` are further ones, by that whose code they run."""

    name: str
    aliases: tuple[str, ...]
    driver: str
    archs: tuple[str, ...]
    default: tuple[str, ...]
    illegal_types: tuple[str, ...]
    same_as: dict[str, str]


@dataclass(frozen=True)
class TargetsResult:
    targets: tuple[TargetRow, ...]


def targets() -> TargetsResult:
    """What `--targets` may name; needs neither a device nor the compiler."""
    from lemurc.targets.registry import targets as registered

    return TargetsResult(
        tuple(
            TargetRow(
                name=target.name,
                aliases=target.aliases,
                driver=target.driver,
                archs=tuple(arch.name for arch in target.architectures),
                default=target.default,
                illegal_types=target.illegal_types,
                same_as=dict(target.same_as),
            )
            for target in registered().values()
        )
    )
