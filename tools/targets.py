"""The kinds of hardware lemurc compiles for, ours and those of installed packages."""

from dataclasses import dataclass, field


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
    package: str = ""
    """ "name version" of what adds it; "" for ours."""


@dataclass(frozen=True)
class TargetsResult:
    """`broken` maps targets of packages that cannot be used to what is wrong with them."""

    targets: tuple[TargetRow, ...]
    broken: dict[str, str] = field(default_factory=dict)


def targets() -> TargetsResult:
    """What `--targets` may name; needs neither a device nor the compiler."""
    from lemurc.targets.registry import broken, package_of
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
                package=package_of(target.name),
            )
            for target in registered().values()
        ),
        broken={name: error.message for name, error in broken().items()},
    )
