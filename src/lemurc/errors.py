"""Every error that is the user's to mend, and nothing else.

    LemurcError
    +-- UsageError             2   a flag, path or argument that cannot be meant
    +-- UnsupportedModelError  3   the model uses something lemurc cannot compile
    +-- VerificationError      4   the compiled program differs from its reference
    +-- ArtifactError          5   a .lemur file that is damaged, foreign or of another version
    +-- DeviceError            6   a device that is missing, lost or out of memory
    +-- BudgetError            7   a time or memory limit was reached
    +-- InputError             8   a call with arguments the artifact does not accept
    +-- TrainingError          9   a training run that cannot go on

The number is the exit status of the command line. A fault of lemurc itself is an
`InternalError` (status 1); any other exception is a bug and is reported as one.
"""

from typing import ClassVar


class LemurcError(Exception):
    """What went wrong, where, and what to do about it.

    `code` is stable, kebab-case, and documented in docs/errors.md; `where` is a
    place the user knows (their Python line, a file, a flag); `hint` is an action.
    """

    exit_status: ClassVar[int] = 1
    code: str = "error"

    def __init__(
        self, message: str, *, code: str | None = None, where: str = "", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        parts = [self.message]
        if self.where:
            parts.append(f"  at {self.where}")
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class InternalError(LemurcError):
    """lemurc broke one of its own rules; `hint` names the saved reproducer."""

    code = "internal"


class UsageError(LemurcError):
    exit_status = 2
    code = "usage"


class UnsupportedModelError(LemurcError):
    exit_status = 3
    code = "unsupported-model"


class VerificationError(LemurcError):
    exit_status = 4
    code = "verification-failed"


class ArtifactError(LemurcError):
    exit_status = 5
    code = "bad-artifact"


class DeviceError(LemurcError):
    exit_status = 6
    code = "device"


class BudgetError(LemurcError):
    exit_status = 7
    code = "budget"


class InputError(LemurcError):
    exit_status = 8
    code = "input"


class TrainingError(LemurcError):
    exit_status = 9
    code = "training"
