"""From a stage to what a compiler takes, once for each target and architecture."""

import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from lemurc.dumps import Dumps
from lemurc.exchange import IreeInput, LoweredStage, Request, TargetArch
from lemurc.stage_sources import StageSource

if TYPE_CHECKING:
    from lemurc.targets.lower_to_iree import LoweredStage as LoweredForIree

logger = logging.getLogger("lemurc.lowering")


def without_code(source: StageSource, *ir: IreeInput) -> LoweredStage:
    return LoweredStage(
        source.inputs,
        source.outputs,
        source.cost,
        source.ops,
        ir,
        source.work,
        source.content if source.host is None else "",
        source.lines,
        source.host,
        source.paths,
    )


def lower_stage(
    stage_name: str,
    source: StageSource,
    targets: set[str],
    request: Request,
    folder: Path,
    dumps: Dumps,
) -> LoweredStage:
    from lemurc.targets.unpack_weights import packed_names

    inputs = []
    if source.host is not None:
        return without_code(source)
    wanted = [arch for arch in request.archs if arch.target in targets or arch.always]
    stage = {arch: _lower_for(source, arch, request) for arch in wanted}
    # Code without kernels reads the weights that kernels have packed: they are stored once.
    packed = {
        (arch.target, name.rpartition("@")[0]): name
        for arch in wanted
        if arch.stored
        for name in packed_names(stage[arch].parameters)
    }
    for arch in wanted:
        logger.debug("lowering %s for %s:%s", stage_name, arch.target, arch.arch)
        names = [packed.get((arch.target, name)) for name in stage[arch].parameters]
        if shared := tuple(name for name in names if name is not None):
            stage[arch] = _lower_for(source, arch, request, shared)
        lowered = stage[arch]
        name = hashlib.sha256(lowered.bytecode).hexdigest()[:24] + ".mlirbc"
        (folder / name).write_bytes(lowered.bytecode)
        dumps.iree_input(f"{stage_name}-{arch.target}-{arch.arch}", lowered.bytecode)
        inputs.append(
            IreeInput(
                target=arch.target,
                arch=arch.arch,
                file=name,
                parameters=lowered.parameters,
                traits=lowered.traits,
            )
        )
    return without_code(source, *inputs)


def _lower_for(
    source: StageSource, arch: TargetArch, request: Request, packed: tuple[str, ...] = ()
) -> "LoweredForIree":
    from lemurc.targets.lower_to_iree import lower_to_iree
    from lemurc.targets.lower_to_portable import lower_to_portable
    from lemurc.targets.registry import get
    from lemurc.targets.stage_passes import last_passes, stage_passes

    target = get(arch.target)
    if target.compiler is not None:
        return lower_to_portable(source.bytecode)
    select = stage_passes(target, arch.arch, packed, kernels=request.kernels)
    return lower_to_iree(source.bytecode, select=select, last=last_passes(target))
