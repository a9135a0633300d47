"""Read command lines with argparse; errors are one line."""

import argparse
from typing import NoReturn

from sqrtdk.system.errors import refuse_option


class Parser(argparse.ArgumentParser):
    """argparse that answers in one line."""

    def error(self, message: str) -> NoReturn:
        """End with what is wrong, without the usage before it."""
        refuse_option(self, message)


def whole(text: str) -> int:
    """A whole number from 1, as `Parser` reads it."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: whole numbers from 1")
    return int(text)
