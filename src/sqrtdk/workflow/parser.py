"""Parse command lines with argparse; errors are one line."""

import argparse
from typing import NoReturn

from sqrtdk.system.errors import refuse_option


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with the error, without printing the usage first."""
        refuse_option(self, message)


def whole(text: str) -> int:
    """Parse a whole number from 1, for use as a `type` of argparse."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: whole numbers from 1")
    return int(text)
