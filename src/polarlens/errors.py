"""Errors a user can act on, each with the exit status of the command line: 2 usage, 3 model, 4 units failed."""


class PolarlensError(Exception):
    """Base of all errors that are shown as one message without a traceback.

    Parameters
    ----------
    what: what is wrong, in one sentence without a full stop.
    where: the file and line, option, layer or token concerned.
    fix: what the user can do about it.
    """

    exit_status = 1

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what, self.where, self.fix = what, where, fix
        message = f"{where}: {what}" if where else what
        super().__init__(f"{message}. {fix}" if fix else message)


class UsageError(PolarlensError):
    """Bad usage, configuration or data; a model or folder that cannot be found or read as named. Exit status 2."""

    exit_status = 2


class ModelError(PolarlensError):
    """The model was found but is not usable. Exit status 3."""

    exit_status = 3


class SiteError(ModelError):
    """A site asked for by name does not exist in this model, or could not be verified there. Exit status 3."""


class NumericalError(PolarlensError):
    """A measured number is not what was asked for: realised distance off, or a value that is not finite.

    Fails the unit of work that raised it; a run with failed units ends with exit status 4.
    """

    exit_status = 4
